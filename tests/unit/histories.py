"""Events of one sandbox, written down as they would stand in the log."""

import datetime

import msgspec

from contracts import codec
from contracts.errors import Failure
from contracts.events import audit, sandbox
from contracts.message import EventHead, Fact
from contracts.payload import Encoding
from contracts.registry import tag_of
from contracts.spec import Isolation, SandboxSpec
from contracts.state import Sequenced

BEGAN = datetime.datetime(2026, 5, 1, 9, 0, tzinfo=datetime.UTC)
FIRST = 10
"""Sequences of one sandbox do not begin at 1."""


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
