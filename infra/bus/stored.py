"""What the log has from one sequence to another, with everything that it lacks told in its place."""

import asyncio
import bisect
import operator
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from contracts import subjects
from infra.bus import gaps, page
from infra.bus.connection import Bus
from infra.bus.errors import LogGap
from infra.bus.gaps import Gap, Gaps, OnGap
from infra.bus.log_state import state_of
from infra.bus.page import Entry
from infra.bus.pages import Merged, Pages, counted
from infra.bus.patience import patiently

CHUNK = 256
"""Entries that are handed over without a pause for others on the same loop."""

_sequence = operator.attrgetter("seq")


class Stored:
    """Reads what is stored for one reader, round after round."""

    def __init__(self, bus: Bus, filters: Sequence[str], on_gap: OnGap | None, share: int = 1) -> None:
        self._bus = bus
        self._share = share
        self._filters = filters
        self._on_gap = on_gap
        self.whole = list(filters) == [subjects.LOG]
        self._known: list[Gap] = []
        self._told: list[Gap] = []
        self._counted = False

    async def chunks(self, start: int, stop: int, state: dict[str, Any]) -> AsyncGenerator[list[Entry], None]:
        """Entries in order, some at a time, from `start` up to `stop`; `state` is the log's of a moment ago.

        Raises `LogGap` if every sequence is read, one is missing, and nobody is to be told; `Denied`.
        """
        if not self.whole:
            lost = await patiently(self._bus, lambda bus: Gaps.of(bus).lost(state, start, stop))
            self._known = [gap for gap in lost if gap not in self._told]
        first = start
        pages = await self._open(start, stop, state)
        try:
            while entries := await pages.next():
                for piece in _pieces(entries, await self._before(entries, start)):
                    if isinstance(piece, Gap):
                        self.tell(piece)
                        continue
                    yield piece
                    if len(piece) == CHUNK:
                        await asyncio.sleep(0)
                start = entries[-1].seq + 1
            missing = not self.whole and await pages.shortfall() > 0
            for gap in await self._after(start if self.whole else first, stop, missing=missing):
                self.tell(gap)
        finally:
            pages.forget()

    def tell(self, gap: Gap) -> None:
        """Whoever wants to know; raises `LogGap` where nobody does and every sequence is read."""
        self._told.append(gap)
        if self._on_gap is not None:
            self._on_gap(gap)
        elif self.whole:
            raise LogGap(f"the log lacks sequence {gap.first} to {gap.last}")
        else:
            gaps.warn(gap)

    async def _open(self, start: int, stop: int, state: dict[str, Any]) -> Pages | Merged:
        share = len(self._filters) * self._share
        each = [Pages(self._bus, one, start, stop, share=share, whole=self.whole) for one in self._filters]
        if not self.whole and not self._counted and state["first_seq"] < start <= stop:
            self._counted = True
            for pages, one in zip(each, self._filters, strict=True):
                await self._promise(pages, one, start, state["first_seq"])
        return each[0] if len(each) == 1 else Merged(each)

    async def _promise(self, pages: Pages, filter_: str, start: int, first: int) -> None:
        """From within a block the server counts only what it can read; of whole blocks it knows what should be there.

        So whoever reads everything that matches is promised what the server counts from the log's beginning.
        """
        found = await patiently(self._bus, lambda bus: page.fetch(bus, filter_, first, limit=1))
        if found.entries and found.entries[0].seq >= start:
            pages.promise(counted(found.entries[0]))

    async def _before(self, entries: list[Entry], start: int) -> list[Gap]:
        if self.whole:
            if entries[-1].seq - start == len(entries) - 1:
                return []
            return await self._lasting(gaps.between(entries, start))
        passed = bisect.bisect_right(self._known, entries[-1].seq, key=operator.attrgetter("first"))
        due, self._known = self._known[:passed], self._known[passed:]
        return due

    async def _after(self, start: int, stop: int, *, missing: bool) -> list[Gap]:
        if self.whole:
            return await self._lasting([Gap(start, stop)]) if start <= stop else []
        if not missing:
            return self._known
        found = await patiently(self._bus, lambda bus: Gaps.of(bus).search(start, stop))
        return sorted({*found, *self._known}.difference(self._told))

    async def _lasting(self, holes: list[Gap]) -> list[Gap]:
        """Without what retention has removed."""
        state = await patiently(self._bus, state_of)
        return gaps.clip(holes, state["first_seq"], holes[-1].last)


def _pieces(entries: list[Entry], due: Sequence[Gap]) -> Iterator[list[Entry] | Gap]:
    at = 0
    for gap in due:
        end = bisect.bisect_left(entries, gap.first, lo=at, key=_sequence)
        yield from _chunked(entries, at, end)
        yield gap
        at = end
    yield from _chunked(entries, at, len(entries))


def _chunked(entries: list[Entry], at: int, end: int) -> Iterator[list[Entry]]:
    if (at, end) == (0, len(entries)) and end < CHUNK:
        yield entries
        return
    for begin in range(at, end, CHUNK):
        yield entries[begin : min(begin + CHUNK, end)]
