"""A log in few words: what happened to sandboxes, one event after another."""

import datetime
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from contracts import codec
from contracts.errors import Failure
from contracts.events import agent, sandbox
from contracts.ledger import Ledger
from contracts.message import Event, EventHead, Fact
from contracts.quotas import Quota, Quotas
from contracts.registry import tag_of
from contracts.spec import Isolation, Resources, SandboxSpec

NOON = datetime.datetime(2026, 5, 31, 12, tzinfo=datetime.UTC)


class Told(NamedTuple):
    sandbox: str
    fact: Fact
    at: datetime.datetime = NOON


def spec(project: str | None = "web", *, cpus: float = 1.0, memory_mb: int = 1024) -> SandboxSpec:
    return SandboxSpec(project_id=project, resources=Resources(cpus=cpus, memory_mb=memory_mb))


def creating(name: str, wanted: SandboxSpec | None = None, by: str = "gateway/alice") -> Told:
    fact = sandbox.SandboxCreating(spec=wanted or spec(), isolation=Isolation.LOCAL, node="n1", by=by)
    return Told(name, fact)


def created(name: str) -> Told:
    return Told(name, sandbox.SandboxCreated(node="n1", isolation=Isolation.LOCAL, workspace="/workspace"))


def started(name: str) -> Told:
    return Told(name, sandbox.SandboxStarted(instance="i1"))


def stopped(name: str) -> Told:
    return Told(name, sandbox.SandboxStopped(reason="asked"))


def failed(name: str) -> Told:
    return Told(name, sandbox.SandboxFailed(failure=Failure(code="ANY", message="any")))


def removed(name: str) -> Told:
    return Told(name, sandbox.SandboxRemoved(reason="asked"))


def recovering(name: str) -> Told:
    return Told(name, sandbox.SandboxRecovering(attempt=0, reason="asked", node="n2"))


def made(name: str, wanted: SandboxSpec | None = None, by: str = "gateway/alice") -> list[Told]:
    return [creating(name, wanted, by), created(name), started(name)]


def spent(name: str, usd: float, at: datetime.datetime = NOON) -> Told:
    return Told(name, agent.AgentMetrics(run="r1", cost_usd=usd), at)


def head_of(told: Told, number: int) -> EventHead:
    event = Event(
        id=f"e{number}", source="any", type=tag_of(told.fact), time=told.at, sandboxid=told.sandbox, data=told.fact
    )
    return codec.decode_head(codec.encode(event))


def ledger(quotas: Quotas, *events: Told | Iterable[Told]) -> Ledger:
    """After all of them."""
    found = Ledger(quotas)
    flat = [told for each in events for told in ([each] if isinstance(each, Told) else each)]
    for number, told in enumerate(flat, start=1):
        found.apply(number, head_of(told, number))
    return found


def per_project(**limits: float | str) -> Quotas:
    return Quotas(project=msgspec.convert(limits, Quota))
