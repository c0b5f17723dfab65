"""Keeps the read model at the head of the log."""

import asyncio
import logging
from collections.abc import Callable

from contracts.errors import Invalid
from infra.bus import gaps, reader
from infra.bus.connection import Bus
from infra.bus.gaps import Gap
from services.replay.projection import Projection, filters, head_of

logger = logging.getLogger(__name__)


async def follow(
    bus: Bus, projection: Projection, start: int, changed: asyncio.Event, doubt: Callable[[], None]
) -> None:
    """For ever, until cancelled. `doubt` where the log lacks what was applied, or has given its sequences again."""

    def lacking(gap: Gap) -> None:
        gaps.warn(gap)
        if gap.first <= projection.applied:
            projection.rewind(gap.first - 1)
            doubt()

    async for entry in reader.read(bus, filters(), start, follow=True, on_gap=lacking):
        try:
            projection.apply(entry.seq, head_of(entry))
        except Invalid as error:
            logger.error("event %d cannot be read: %s", entry.seq, error.message)  # noqa: TRY400
        else:
            projection.stored_at = entry.stored_at
        changed.set()
