"""What is known of a sandbox now: its state by the log, and what it uses by its vitals."""

import datetime
from typing import Any

import msgspec
from msgspec import Struct

from contracts.state import SandboxState, Status
from infra.client.vitals import Vitals

ALIVE = frozenset({Status.RUNNING, Status.PAUSED})
MB = 1024 * 1024
SLACK_S = 10.0
NOTHING = "—"


class Use(Struct, frozen=True, kw_only=True):
    """Of the present life of a sandbox, with what it may use."""

    measured_at: datetime.datetime
    age_s: float
    fresh: bool
    """No look is overdue."""
    cpu_percent: float
    """100 = one CPU."""
    cpus: float
    memory_bytes: int
    memory_limit_bytes: int
    processes: int
    processes_limit: int
    disk_bytes: int
    disk_limit_bytes: int
    network_in_bytes: int | None
    network_out_bytes: int | None


class Seen(Struct, frozen=True, kw_only=True):
    """One sandbox at one moment."""

    state: SandboxState
    use: Use | None = None
    seen_at: datetime.datetime | None = None
    """When it was last found alive in its present life."""
    now: datetime.datetime
    overdue: bool = False
    """It should have been seen since: what is said of its health may be old."""

    @property
    def alive(self) -> bool:
        return self.state.status in ALIVE

    @property
    def health(self) -> str:
        """`healthy`, `unhealthy`, `died`, or nothing: what does not run is neither well nor ill."""
        told = self.state.health
        if told == "died" and self.state.status != Status.REMOVED:
            return told
        return told if self.alive and told in ("healthy", "unhealthy") else NOTHING

    @property
    def fresh_use(self) -> Use | None:
        """What it uses now, as far as anybody knows."""
        return self.use if self.use is not None and self.use.fresh and self.state.health != "died" else None


def seen(state: SandboxState, vitals: Vitals | None, *, now: datetime.datetime, every_s: float) -> Seen:
    """`every_s` is how often a sandbox is looked at."""
    vitals = vitals or Vitals()
    began = state.started_at or state.created_at
    fresh_s = every_s * 2 + SLACK_S
    seen_at = vitals.seen_at if vitals.seen_at is not None and vitals.seen_at >= began else None
    alive = state.status in ALIVE
    late = alive and (now - (seen_at or began)).total_seconds() > fresh_s
    use = _use(state, vitals, now, fresh_s) if alive else None
    return Seen(state=state, use=use, seen_at=seen_at, now=now, overdue=late)


def _use(state: SandboxState, vitals: Vitals, now: datetime.datetime, fresh_s: float) -> Use | None:
    metrics, at = vitals.metrics, vitals.measured_at
    if metrics is None or at is None or at < (state.started_at or state.created_at):
        return None
    age_s = max((now - at).total_seconds(), 0.0)
    resources = state.spec.resources
    return Use(
        measured_at=at,
        age_s=round(age_s, 3),
        fresh=age_s <= fresh_s,
        cpu_percent=metrics.cpu_percent,
        cpus=resources.cpus,
        memory_bytes=metrics.memory_bytes,
        memory_limit_bytes=resources.memory_mb * MB,
        processes=metrics.processes,
        processes_limit=resources.pids,
        disk_bytes=metrics.disk_bytes,
        disk_limit_bytes=resources.disk_mb * MB,
        network_in_bytes=metrics.network_in_bytes,
        network_out_bytes=metrics.network_out_bytes,
    )


def as_json(seen: Seen) -> dict[str, Any]:
    """Its state, and beside it `use` and `seen_at`."""
    state: dict[str, Any] = msgspec.to_builtins(seen.state)
    return state | {"use": msgspec.to_builtins(seen.use), "seen_at": msgspec.to_builtins(seen.seen_at)}
