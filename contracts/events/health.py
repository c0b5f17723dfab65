"""Facts about a sandbox's health, written by the health monitor; and the signs of life on `cloche.vitals`."""

from enum import StrEnum

from contracts.message import Fact, Time


class DeathCause(StrEnum):
    EXIT = "exit"
    OOM = "oom"
    KILLED = "killed"
    DISK = "disk"
    ENGINE_LOST = "engine_lost"
    REBOOTED = "rebooted"
    UNKNOWN = "unknown"


class DeathAction(StrEnum):
    """What the spawner is asked for."""

    RECOVER = "recover"
    STOP = "stop"


class HealthHealthy(Fact, frozen=True, kw_only=True):
    reason: str = ""


class HealthUnhealthy(Fact, frozen=True, kw_only=True):
    reason: str


class HealthLimitExceeded(Fact, frozen=True, kw_only=True):
    limit: str
    allowed: float
    used: float
    action: str


class HealthDied(Fact, frozen=True, kw_only=True):
    cause: DeathCause
    detail: str
    exit_code: int | None = None
    signal: int | None = None
    last_output: str = ""
    instance: str | None = None
    """The life that ended. There is one `health.died` for each."""
    action: DeathAction = DeathAction.STOP
    due: Time | None = None
    """When the action is asked for: a lease that whoever monitors next goes on with."""
    looked_at: tuple[str, ...] = ()
    """Where the cause was looked for, when it is unknown."""


class VitalsHeartbeat(Fact, frozen=True, kw_only=True):
    status: str


class VitalsMetrics(Fact, frozen=True, kw_only=True):
    cpu_percent: float
    memory_bytes: int
    processes: int
    disk_bytes: int
    network_in_bytes: int | None = None
    network_out_bytes: int | None = None
