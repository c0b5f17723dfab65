"""How the log stands, as its server says."""

from typing import Any

from contracts.streams import LOG_STREAM
from infra.bus import replicas
from infra.bus.connection import Bus


async def state_of(bus: Bus) -> dict[str, Any]:
    """The log's state as STREAM.INFO has it. Raises `Unavailable`, `NobodyAnswers`."""
    info = await bus.api(f"STREAM.INFO.{LOG_STREAM}")
    replicas.note(bus, LOG_STREAM, info)
    state: dict[str, Any] = info["state"]
    return state
