"""Reading the log from a cursor: what is stored, then what is being stored, each entry once and in order.

Pages come by direct get, live entries by a plain subscription to what the server repeats. The cursor joins the two: a
page is read after the subscription is in place, so what was stored later than the page must come live; and whenever
the live side may have lost something (disconnect, reader too slow) the next page starts at the cursor again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from contracts import subjects
from contracts.errors import Unavailable
from contracts.streams import LOG_STREAM
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.errors import LogGap
from infra.bus.live import Live
from infra.bus.page import PAGE_BYTES, PAGE_ENTRIES, Entry, Page

__all__ = ["Entry", "LogGap", "Page", "bounds", "fetch", "first", "follow_tap", "last", "patiently", "read"]

IDLE_CHECK_S = 5.0
"""How long a follower trusts that nothing was stored because nothing came."""
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


T = TypeVar("T")


class Bounds(NamedTuple):
    first: int
    last: int
    """`last < first` in an empty log."""


async def bounds(bus: Bus) -> Bounds:
    """The log's first and last sequence. Raises `Unavailable`, `NobodyAnswers`."""
    state = (await bus.api(f"STREAM.INFO.{LOG_STREAM}"))["state"]
    return Bounds(state["first_seq"], state["last_seq"])


async def last(bus: Bus, filter_: str) -> Entry | None:
    """The newest entry that matches. Raises `Unavailable`."""
    return await page.fetch_last(bus, filter_)


async def first(bus: Bus, filter_: str, *, start: int = 1) -> Entry | None:
    """The oldest entry that matches, at or after `start`. Raises `Unavailable`."""
    found = await page.fetch(bus, filter_, start, limit=1)
    return found.entries[0] if found.entries else None


async def fetch(
    bus: Bus, filters: Sequence[str], start: int, *, limit: int = PAGE_ENTRIES, max_bytes: int = PAGE_BYTES
) -> Page:
    """One page: up to `limit` entries that match any filter, in order, from sequence `start`.

    `pending` > 0 means that there is more: ask again from the last entry's sequence + 1. Raises `Unavailable`.
    """
    if len(filters) == 1:
        return await page.fetch(bus, filters[0], start, limit=limit, max_bytes=max_bytes)
    # Pages of several filters are taken one after another, so only what was stored before the first can be merged.
    head = (await bounds(bus)).last
    pages = [await page.fetch(bus, each, start, limit=limit, max_bytes=max_bytes) for each in filters]
    return _merge(pages, head, limit)


def _merge(pages: list[Page], head: int, limit: int) -> Page:
    sure = min([head, *(each.entries[-1].seq for each in pages if each.pending and each.entries)])
    merged = {entry.seq: entry for each in pages for entry in each.entries}
    ordered = [merged[seq] for seq in sorted(merged) if seq <= sure]
    beyond = len(merged) - len(ordered[:limit]) + sum(each.pending for each in pages)
    return Page(ordered[:limit], beyond)


class _Cursor:
    """Where a read is, and whether anything is missing behind it."""

    def __init__(self, filters: Sequence[str], start: int) -> None:
        self.next = max(start, 1)
        self._whole = list(filters) == [subjects.LOG]

    def in_reach(self, stop: int | None) -> bool:
        return stop is None or self.next <= stop

    def passes(self, entry: Entry, stop: int | None) -> bool:
        """Moves past the entry; False if it was passed before, or lies beyond the end."""
        if entry.seq < self.next:
            return False
        self.next = entry.seq + 1
        return stop is None or entry.seq <= stop

    def continues(self, entry: Entry) -> bool:
        """False if a live entry leaves a hole, which a page must then explain."""
        return not self._whole or entry.seq <= self.next

    async def check(self, bus: Bus, found: Page, head: int) -> None:
        """Raises `LogGap` when an unfiltered page skips a sequence that retention has not removed."""
        if not self._whole:
            return
        expected = self.next
        for entry in found.entries:
            if entry.seq != expected and entry.seq > (await bounds(bus)).first:
                raise LogGap(f"the log lacks sequence {expected} to {entry.seq - 1}")
            expected = entry.seq + 1
        if not found.entries and expected <= head and (await bounds(bus)).first <= head:
            raise LogGap(f"the log lacks sequence {expected} to {head}")


async def read(
    bus: Bus, filters: Sequence[str], start: int = 1, *, follow: bool, end: int | None = None
) -> AsyncIterator[Entry]:
    """Every entry that matches any of `filters`, from sequence `start`, each once and in order.

    `follow=False` ends with what is stored at the time of the call (and at `end`, if that comes first); `follow=True`
    goes on for ever, or until `end` has passed. Lost connections and server restarts are waited out in silence.
    One page and `live.MAX_BYTES` at most are held in memory, however slow the reader.

    Raises `LogGap` if an unfiltered read (`[subjects.LOG]`) finds a sequence missing that retention has not removed,
    `Denied`.
    """
    if follow:
        async with Live.open(bus, filters) as live:
            async for entry in follow_tap(bus, filters, live, start, end=end):
                yield entry
        return
    head = (await patiently(bus, bounds)).last
    async for entry in _stored(bus, filters, _Cursor(filters, start), head, head if end is None else min(head, end)):
        yield entry


async def follow_tap(
    bus: Bus, filters: Sequence[str], live: Live, start: int = 1, *, end: int | None = None, complete: bool = False
) -> AsyncIterator[Entry]:
    """Like `read` with `follow`, on a tap of the same filters that is open already.

    `complete`: it was in place before the first entry that can match, so the log is asked only if something was lost.
    """
    cursor = _Cursor(filters, start)
    while cursor.in_reach(end):
        if not complete:
            live.reset()
            head = (await patiently(bus, bounds)).last
            async for entry in _stored(bus, filters, cursor, head, end):
                yield entry
            # Nothing that matches lies before the head, so the next look need not step over it again.
            cursor.next = max(cursor.next, head + 1)
        complete = False
        while cursor.in_reach(end) and (following := await live.next(IDLE_CHECK_S)):
            if not cursor.continues(following):
                break
            if cursor.passes(following, end):
                yield following


async def _stored(
    bus: Bus, filters: Sequence[str], cursor: _Cursor, head: int, stop: int | None
) -> AsyncIterator[Entry]:
    """What the log has, page by page; `head` was its last sequence a moment ago."""
    pending = True
    while pending and cursor.in_reach(stop):
        found = await patiently(bus, lambda bus: fetch(bus, filters, cursor.next))
        await cursor.check(bus, found, head)
        for entry in found.entries:
            if cursor.passes(entry, stop):
                yield entry
        pending = found.pending > 0


async def patiently(bus: Bus, call: Callable[[Bus], Awaitable[T]]) -> T:
    """Repeat a read until it succeeds. Raises `Unavailable` only if the bus was closed."""
    pause = FIRST_PAUSE_S
    while True:
        await bus.wait_connected()
        try:
            return await call(bus)
        except Unavailable:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
