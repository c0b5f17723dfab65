"""How far a follower of the log is behind its head."""

from collections.abc import Callable, Sequence

from contracts.streams import LOG_STREAM
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.server_time import server_now
from infra.observing import catalogue
from infra.observing.polling import poll
from infra.observing.within import within


async def watch_lag(follower: str, bus: Bus, filters: Sequence[str], applied: Callable[[], int]) -> None:
    """For ever, until cancelled. Only what the follower reads counts: `applied` is the last of that."""

    async def look() -> None:
        start, behind, oldest = applied() + 1, 0, None
        for each in filters:
            found = await page.fetch(bus, each, start, limit=1)
            if found.entries:
                behind += 1 + found.pending
                oldest = min(oldest or found.entries[0].time, found.entries[0].time)
        name = within(bus, follower)
        catalogue.lag_events.set(behind, name)
        age_s = 0.0 if oldest is None else (await server_now(bus, LOG_STREAM) - oldest).total_seconds()
        catalogue.lag_seconds.set(max(age_s, 0.0), name)

    await poll(look)
