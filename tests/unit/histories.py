"""Events of one sandbox, written down as they would stand in the log."""

import datetime
from typing import Any

import msgspec

from contracts import codec
from contracts.errors import Failure
from contracts.events import audit, health, sandbox
from contracts.message import EventHead, Fact
from contracts.payload import Encoding
from contracts.registry import tag_of
from contracts.spec import Isolation, Restart, RestartPolicy, SandboxSpec
from contracts.state import Sequenced
from services.cli.story import Story
from services.cli.why import tell

BEGAN = datetime.datetime(2026, 5, 1, 9, 0, tzinfo=datetime.UTC)
FIRST = 10
"""Sequences of one sandbox do not begin at 1."""
NOW = BEGAN + datetime.timedelta(seconds=30)
HEAD = 99
NEVER = SandboxSpec(restart=Restart(policy=RestartPolicy.NEVER))
DIED = Failure(code="SANDBOX_DIED", message="the sandbox died", details={"cause": "oom"})


class Told:
    """A fact, and the command that asked for it."""

    def __init__(self, fact: Fact, command: str | None = None, *, tag: str | None = None) -> None:
        self.fact = fact
        self.command = command
        self.tag = tag or tag_of(fact)


def history(*told: Fact | Told) -> list[Sequenced]:
    """One event a second, from `FIRST` on."""
    events = []
    for number, each in enumerate(told):
        one = each if isinstance(each, Told) else Told(each)
        head = EventHead(
            id=f"test.{number}",
            source="test/local",
            type=one.tag,
            time=BEGAN + datetime.timedelta(seconds=number),
            sandboxid="sb",
            node="local",
            correlationid=one.command,
            data=msgspec.Raw(codec.encode(one.fact)),
        )
        events.append(Sequenced(FIRST + number, head))
    return events


def begun(spec: SandboxSpec | None = None) -> list[Fact | Told]:
    """Sequences 10 to 12."""
    spec = spec or SandboxSpec()
    return [
        Told(sandbox.SandboxCreating(spec=spec, isolation=Isolation.LOCAL, node="local"), "c-make"),
        Told(sandbox.SandboxCreated(node="local", isolation=Isolation.LOCAL, workspace="/workspace"), "c-make"),
        Told(sandbox.SandboxStarted(instance="i1"), "c-make"),
    ]


def letter(verb: str, message: str, command: str = "c-refused") -> Told:
    fact = audit.DeadLetter(
        subject=f"cloche.cmd.local.sb.sandbox.{verb}",
        reason=Failure(code="INVALID", message=message),
        delivered=1,
        size=2,
        data="{}",
        encoding=Encoding.UTF8,
    )
    return Told(fact, command, tag="dead_letter.spawner")


def story(*told: Fact | Told, now: datetime.datetime = NOW, shown: int = 12) -> Story:
    found = tell("sb", history(*told), now=now, head=HEAD, shown=shown)
    assert found is not None
    return found


def death(cause: health.DeathCause = health.DeathCause.KILLED, **values: Any) -> health.HealthDied:
    fields = {"detail": "init ended", "instance": "i1", "action": health.DeathAction.STOP} | values
    return health.HealthDied(cause=cause, **fields)


def stopped(failure: Failure | None = None, *, command: str = "c-stop", reason: str = "asked") -> Told:
    return Told(sandbox.SandboxStopped(reason=reason, failure=failure), command)
