"""What the log says a sandbox died of, and when."""

import datetime

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.events.health import DeathCause, HealthDied
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.connection import Bus
from infra.journal import Journal


async def last_cause(journal: Journal, sandbox: str) -> dict[str, str]:
    """For the details of a failure; empty where no death is on record. Raises `Unavailable`."""
    died = await journal.last(sandbox, "health.died")
    return {"cause": died.cause, "died": died.detail} if isinstance(died, HealthDied) else {}


async def died_with_its_engine(journal: Journal, state: SandboxState) -> bool:
    """The life that is to be replaced. Raises `Unavailable`."""
    died = await journal.last(state.sandbox, "health.died")
    if not isinstance(died, HealthDied) or died.instance != state.instance:
        return False
    return died.cause == DeathCause.ENGINE_LOST


async def time_down(bus: Bus, state: SandboxState, now: datetime.datetime) -> tuple[str, ...]:
    """For the notes of a recovery: since when the life that it replaces was dead. Empty where that is not on record."""
    try:
        newest = await reader.last(bus, subjects.event(state.sandbox, "health.died"))
        head = None if newest is None else codec.decode_head(newest.data)
        died = None if head is None else codec.decode_fact(head)
    except ClocheError:
        return ()
    if head is None or not isinstance(died, HealthDied) or died.instance != state.instance:
        return ()
    return (f"back {(now - head.time).total_seconds():.3f} s after its death was told",)
