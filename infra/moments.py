"""A time as a sequence of the log."""

import datetime

from contracts import subjects
from contracts.errors import Invalid
from infra.bus import page
from infra.bus.connection import Bus
from infra.log.choosing import view_of
from infra.log.live import LiveView

Moment = int | datetime.datetime
EARLIEST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LATEST = datetime.datetime(2262, 1, 1, tzinfo=datetime.UTC)
"""The server counts nanoseconds in 64 bits: what lies beyond them comes out anywhere."""
FINEST = datetime.timedelta(microseconds=1)
"""The server's clock is finer: what it stored within it belongs to the moment."""


class LogBeginsLater(Invalid):
    """Than the time that was asked for."""


async def sequence_at(bus: Bus, sandbox: str, moment: Moment) -> int:
    """The last sequence that was stored up to a time; a sequence is one already.

    Raises `Invalid` for a time without a zone and one before the log begins, `Unavailable`.
    """
    if isinstance(moment, int):
        return moment
    if moment.tzinfo is None:
        raise Invalid(f"{moment.isoformat()} has no zone: write 2026-01-31T12:00:00Z or +01:00 behind it")
    view = await view_of(bus, sandbox)
    bounds = await view.bounds()
    if isinstance(view, LiveView):
        after = (await page.fetch(bus, subjects.LOG, 1, since=_clamped(moment) + FINEST, limit=1)).entries
        found = after[0].seq - 1 if after else bounds.last
    else:
        found = 0
        async for entry in view.read(subjects.events_of(sandbox)):
            if entry.time > moment:
                break
            found = entry.seq
    if found < bounds.first:
        raise LogBeginsLater(f"nothing was on record at {moment.isoformat()}: the log begins later")
    return found


async def sequence_since(bus: Bus, sandbox: str, moment: Moment) -> int:
    """The first sequence that is stored at or after a time, 1 where the log begins later; a sequence is one already.

    Raises `Invalid` for a time without a zone, `Unavailable`.
    """
    if isinstance(moment, int):
        return moment
    return await sequence_until(bus, sandbox, max(moment, EARLIEST) - FINEST) + 1


async def sequence_until(bus: Bus, sandbox: str, moment: datetime.datetime) -> int:
    """As `sequence_at`, and 0 where the log begins later."""
    try:
        return await sequence_at(bus, sandbox, moment)
    except LogBeginsLater:
        return 0


def _clamped(moment: datetime.datetime) -> datetime.datetime:
    return min(max(moment, EARLIEST), LATEST)
