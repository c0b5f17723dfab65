"""Reading the log from a cursor: what is stored, then what is being stored, each entry once and in order.

Pages come by direct get, live entries by a plain subscription to what the server repeats. The cursor joins the two: a
page is read after the subscription is in place, so what was stored later than the page must come live; and whenever
the live side may have lost something (disconnect, reader too slow) the next page starts at the cursor again.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from contracts.errors import Unavailable
from contracts.streams import LOG_STREAM
from infra.bus import page, replicas
from infra.bus.connection import Bus
from infra.bus.errors import LogGap
from infra.bus.gaps import Gap, OnGap
from infra.bus.live import Live
from infra.bus.log_state import state_of
from infra.bus.page import PAGE_BYTES, PAGE_ENTRIES, Entry, Page
from infra.bus.patience import patiently
from infra.bus.rewinding import Mark
from infra.bus.stored import Stored

__all__ = [
    "Entry",
    "Gap",
    "LogGap",
    "OnGap",
    "Page",
    "bounds",
    "fetch",
    "first",
    "follow_tap",
    "last",
    "patiently",
    "read",
]

IDLE_CHECK_S = 5.0
"""How long a follower trusts that nothing was stored because nothing came."""
BELIEVED_S = 15.0
"""How long a replicated log has to end earlier than it did until that is believed. A leader without the others gives up
after 10 s."""


class Bounds(NamedTuple):
    first: int
    last: int
    """`last < first` in an empty log."""


async def bounds(bus: Bus) -> Bounds:
    """The log's first and last sequence. Raises `Unavailable`, `NobodyAnswers`."""
    state = await state_of(bus)
    return Bounds(state["first_seq"], state["last_seq"])


async def last(bus: Bus, filter_: str) -> Entry | None:
    """The newest entry that matches and can be read. Raises `Unavailable`."""
    return await page.fetch_last(bus, filter_) or await _last_left(bus, filter_)


async def _last_left(bus: Bus, filter_: str) -> Entry | None:
    """The server says that there is nothing also where only the newest has rotted."""
    if (found := await first(bus, filter_)) is None:
        return None
    end = (await bounds(bus)).last
    while found.seq < end:
        middle = (found.seq + end + 1) // 2
        later = await first(bus, filter_, start=middle)
        found, end = (found, middle - 1) if later is None else (later, end)
    return found


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


def read(
    bus: Bus,
    filters: Sequence[str],
    start: int = 1,
    *,
    follow: bool,
    end: int | None = None,
    on_gap: OnGap | None = None,
    share: int = 1,
) -> AsyncIterator[Entry]:
    """Every entry that matches any of `filters`, from sequence `start`, each once and in order.

    `follow=False` ends with what is stored at the time of the call (and at `end`, if that comes first); `follow=True`
    goes on for ever, or until `end` has passed. Lost connections and server restarts are waited out in silence.
    Two pages and `live.MAX_BYTES` at most are held in memory, however slow the reader. `share`: so many read side by
    side, each with pages that are so much smaller.

    `on_gap` is told what the log lacks: sequences that retention has not removed. An unfiltered read (`[subjects.LOG]`)
    tells each in its place, and raises `LogGap` if there is nobody to tell. A filtered one tells every gap of its
    range that is known, since nobody can say whose it was, and may tell it after its place, also one whose sequences
    were given to other events since; without `on_gap` it is warned of, once in a process. Raises `Denied`.
    """
    stored = Stored(bus, filters, on_gap, share)
    return _followed(bus, filters, stored, start, end) if follow else _once(bus, stored, start, end)


async def _once(bus: Bus, stored: Stored, start: int, end: int | None) -> AsyncIterator[Entry]:
    state = await patiently(bus, state_of)
    head = state["last_seq"]
    stop = head if end is None else min(head, end)
    async with contextlib.aclosing(stored.chunks(max(start, 1), stop, state)) as chunks:
        async for chunk in chunks:
            for entry in chunk:
                yield entry


async def _followed(
    bus: Bus, filters: Sequence[str], stored: Stored, start: int, end: int | None
) -> AsyncIterator[Entry]:
    async with (
        Live.open(bus, filters) as live,
        contextlib.aclosing(_follow(bus, live, stored, start, end)) as entries,
    ):
        async for entry in entries:
            yield entry


def follow_tap(
    bus: Bus, filters: Sequence[str], live: Live, start: int = 1, *, end: int | None = None, complete: bool = False
) -> AsyncIterator[Entry]:
    """Like `read` with `follow`, on a tap of the same filters that is open already.

    `complete`: it was in place before the first entry that can match, so the log is asked only if something was lost.
    """
    return _follow(bus, live, Stored(bus, filters, None), start, end, complete=complete)


async def _follow(
    bus: Bus, live: Live, stored: Stored, start: int, end: int | None, *, complete: bool = False
) -> AsyncGenerator[Entry, None]:
    cursor = _Cursor(start, whole=stored.whole)
    mark = Mark()
    lossy = not stored.whole and await patiently(bus, _is_replicated)
    while cursor.in_reach(end):
        if not complete or lossy:
            live.reset()
            epoch, state = await patiently(bus, partial(_fresh, mark=mark))
            head = state["last_seq"]
            if (again := await patiently(bus, partial(mark.rewound, state=state, epoch=epoch))) is not None:
                stored.tell(again)
                cursor.next = min(cursor.next, again.first)
            if cursor.next <= head:
                stop = head if end is None else min(head, end)
                async with contextlib.aclosing(stored.chunks(cursor.next, stop, state)) as chunks:
                    async for chunk in chunks:
                        for entry in chunk:
                            yield entry
            # Nothing that matches lies before the head, so the next look need not step over it again.
            cursor.next = max(cursor.next, head + 1)
            mark.move(head, state["last_ts"], epoch)
            if lossy:
                async with contextlib.aclosing(_proven(live, stored, cursor, mark, state, end)) as proven:
                    async for entry in proven:
                        yield entry
                continue
        complete = False
        while cursor.in_reach(end) and (following := await live.next(IDLE_CHECK_S)):
            if not cursor.continues(following):
                break
            if cursor.passes(following, end):
                mark.move(following.seq, following.stored_at)
                yield following


async def _proven(
    live: Live, stored: Stored, cursor: "_Cursor", mark: Mark, state: dict[str, Any], end: int | None
) -> AsyncGenerator[Entry, None]:
    """What is stored, each time that something is told to be: until nothing comes for a while, or may have been lost.

    Whoever leads a replicated log repeats what it stores, and with a leader goes what it did not come to repeat, while
    the connection stays. Of a filter nobody can tell that from the sequences.
    """
    while cursor.in_reach(end) and (following := await live.next(IDLE_CHECK_S)):
        newest = live.newest(following)
        stop = newest.seq if end is None else min(newest.seq, end)
        async with contextlib.aclosing(stored.chunks(cursor.next, stop, state)) as chunks:
            async for chunk in chunks:
                for entry in chunk:
                    yield entry
        cursor.next = max(cursor.next, newest.seq + 1)
        mark.move(newest.seq, newest.stored_at)


async def _is_replicated(bus: Bus) -> bool:
    return await replicas.are_several(bus, LOG_STREAM)


async def _fresh(bus: Bus, *, mark: Mark) -> tuple[int, dict[str, Any]]:
    """A server that was cut off takes itself for the leader for a while: what it knows less is not believed at once."""
    epoch, state = bus.epoch, await state_of(bus)
    if state["last_seq"] >= mark.seq or not await _is_replicated(bus) or mark.has_doubted(BELIEVED_S):
        mark.doubtless()
        return epoch, state
    raise Unavailable(f"the log ends at {state['last_seq']}, and {mark.seq} was known")


class _Cursor:
    """Where a follower is."""

    def __init__(self, start: int, *, whole: bool) -> None:
        self.next = max(start, 1)
        self._whole = whole

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
