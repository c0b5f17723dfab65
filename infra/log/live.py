"""The log of this Cloche."""

from collections.abc import AsyncIterator, Sequence

from contracts import subjects
from infra.blobs.blobs import Blobs
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.gaps import Gaps
from infra.bus.page import Entry
from infra.bus.reader import Bounds, Gap, OnGap


class LiveView:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.blobs = Blobs(bus)

    async def bounds(self) -> Bounds:
        return await reader.bounds(self._bus)

    def read(
        self, filters: Sequence[str], start: int = 1, *, end: int | None = None, on_gap: OnGap | None = None
    ) -> AsyncIterator[Entry]:
        return reader.read(self._bus, filters, start, follow=False, end=end, on_gap=on_gap)

    def read_over_gaps(self, start: int, end: int) -> AsyncIterator[Entry]:
        """Every entry that is there. What is missing between them is for the caller to see."""
        return reader.read(self._bus, [subjects.LOG], start, follow=False, end=end, on_gap=lambda _gap: None)

    async def lost(self, first: int, last: int) -> list[Gap]:
        return await Gaps.of(self._bus).lately(first, last)

    async def first(self, filter_: str, *, start: int = 1) -> Entry | None:
        return await reader.first(self._bus, filter_, start=start)

    async def last(self, filter_: str) -> Entry | None:
        return await reader.last(self._bus, filter_)

    async def lasts(self, subjects: Sequence[str], *, up_to: int | None = None) -> list[Entry]:
        return await page.fetch_lasts(self._bus, subjects, up_to=up_to)
