"""What a replay plays: from which event to which."""

from collections.abc import Sequence
from typing import NamedTuple

from contracts import subjects
from contracts.commands.replay import StartReplay
from contracts.errors import Invalid, SandboxNotFound
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.log.view import LogView
from infra.moments import sequence_since, sequence_until


class Range(NamedTuple):
    first: Entry
    """The first event that is asked for, as far as it can be read."""
    last: Entry
    start: int
    """Of what is asked for: what was lost may have been before the first that is left, or after the last."""
    end: int


async def range_of(bus: Bus, view: LogView, sandbox: str, order: StartReplay) -> Range:
    """Raises `SandboxNotFound`, `Invalid` where nothing matches, `Unavailable`."""
    begun = await view.first(subjects.events_of(sandbox)[0])
    if begun is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
    filters = subjects.typed(sandbox, order.types)
    start = order.from_sequence if order.from_time is None else await sequence_since(bus, sandbox, order.from_time)
    end = order.to_sequence if order.to_time is None else await sequence_until(bus, sandbox, order.to_time)
    first = await _first(view, filters, start)
    last = await _last(view, filters, end)
    if first is None or last is None or last.seq < first.seq:
        raise Invalid(f"nothing of {sandbox!r} is on record there: choose another range, or fewer types")
    head = (await view.bounds()).last
    return Range(first, last, max(start, begun.seq), head if end is None else min(end, head))


async def _first(view: LogView, filters: Sequence[str], start: int) -> Entry | None:
    found = [await view.first(each, start=start) for each in filters]
    return min((entry for entry in found if entry is not None), default=None)


async def _last(view: LogView, filters: Sequence[str], end: int | None) -> Entry | None:
    found = [await view.last(each) for each in filters]
    newest = max((entry for entry in found if entry is not None), default=None)
    if newest is None or end is None or newest.seq <= end:
        return newest
    return await _last_up_to(view, filters, end)


async def _last_up_to(view: LogView, filters: Sequence[str], end: int) -> Entry | None:
    """By halves: whatever lies between costs nothing."""
    low, high = 1, end
    last: Entry | None = None
    while low <= high:
        middle = (low + high + 1) // 2
        entry = await _first(view, filters, middle)
        if entry is None or entry.seq > end:
            high = middle - 1
        else:
            last, low = entry, entry.seq + 1
    return last
