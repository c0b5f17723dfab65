"""Page after page of what is stored, of one filter or of several as one, up to a sequence."""

import contextlib
from collections.abc import Sequence

from contracts.errors import Unavailable
from infra.bus import headers, page
from infra.bus.connection import Bus
from infra.bus.page import PAGE_BYTES, PAGE_ENTRIES, Asked, Entry, Page
from infra.bus.patience import patiently

BULK_ENTRIES = 8 * PAGE_ENTRIES
"""Of a page that is not the first: whoever reads so far reads much."""
LEAST_ENTRIES = 100
NUM_PENDING = b"Nats-Num-Pending"


class Pages:
    """Of one filter. The next page is asked for while this one is read, so two are in memory at most."""

    def __init__(self, bus: Bus, filter_: str, start: int, stop: int, *, share: int = 1, whole: bool = False) -> None:
        """`share`: how many read side by side within the same memory. `whole`: every sequence has to be there."""
        self._bus = bus
        self._filter = filter_
        self._next = start
        self._stop = stop
        self._whole = whole
        self._max_bytes = PAGE_BYTES // share
        self._limit = max(PAGE_ENTRIES // share, LEAST_ENTRIES)
        self._bulk = max(BULK_ENTRIES // share, LEAST_ENTRIES)
        self._asked: Asked | None = None
        self._promised: int | None = None
        self._seen = 0
        self._last = 0
        self.more = start <= stop

    async def next(self) -> list[Entry]:
        """At least one entry, or none at the end. Raises `Denied`."""
        if not self.more:
            return []
        found = await self._take()
        entries = found.entries
        self._count(found)
        self.more = bool(entries) and (found.pending > 0 or self._whole) and entries[-1].seq < self._stop
        if self.more:
            await self._ask(entries[-1].seq + 1)
        elif entries and entries[-1].seq > self._stop:
            return [entry for entry in entries if entry.seq <= self._stop]
        return entries

    async def shortfall(self) -> int:
        """How many the server had counted and did not send. More than that are missing if others came meanwhile."""
        unexplained = (self._promised or 0) - self._seen
        if unexplained <= 0:
            return 0
        # What `pending` says of the rest may be those that are missing here.
        beyond = max(self._stop + 1, self._last + 1)
        found = await patiently(self._bus, lambda bus: page.fetch(bus, self._filter, beyond, limit=1))
        return max(unexplained - (counted(found.entries[0]) if found.entries else 0), 0)

    def promise(self, count: int) -> None:
        """From elsewhere, that so many match from the start on."""
        self._promised = max(self._promised or 0, count)

    def forget(self) -> None:
        if self._asked is not None:
            self._asked.forget()

    async def _take(self) -> Page:
        asked, self._asked = self._asked, None
        if asked is not None:
            with contextlib.suppress(Unavailable):
                return await asked.take()
        return await patiently(
            self._bus,
            lambda bus: page.fetch(
                bus, self._filter, self._next, limit=self._most(), max_bytes=self._max_bytes, stop=self._stop
            ),
        )

    async def _ask(self, start: int) -> None:
        self._next, self._limit = start, self._bulk
        with contextlib.suppress(Unavailable):
            self._asked = await page.ask(
                self._bus, self._filter, start, limit=self._most(), max_bytes=self._max_bytes, stop=self._stop
            )

    def _most(self) -> int:
        """Whoever wants a few is not sent thousands: no more can match than there are sequences."""
        return min(self._limit, self._stop - self._next + 1)

    def _count(self, found: Page) -> None:
        if self._promised is None and found.entries:
            self._promised = counted(found.entries[0])
        self._seen += len(found.entries)
        self._last = found.entries[-1].seq if found.entries else self._last


def counted(entry: Entry) -> int:
    """How many match from the start of a page on, by its first entry."""
    return int(headers.get(entry.headers, NUM_PENDING) or 0) + 1


class Merged:
    """Several filters as one: an entry that matches more than one comes once."""

    def __init__(self, each: Sequence[Pages]) -> None:
        self._each = each
        self._waiting: list[list[Entry]] = [[] for _ in each]

    async def next(self) -> list[Entry]:
        """At least one entry, or none at the end. Raises `Denied`."""
        for number, pages in enumerate(self._each):
            if not self._waiting[number] and pages.more:
                self._waiting[number] = await pages.next()
        # Beyond the last entry of a page that is not the last, the other filters may know more than this one.
        ends = [held[-1].seq for held, pages in zip(self._waiting, self._each, strict=True) if held and pages.more]
        sure = min(ends, default=None)
        taken: dict[int, Entry] = {}
        for number, held in enumerate(self._waiting):
            ready = held if sure is None else [entry for entry in held if entry.seq <= sure]
            taken.update((entry.seq, entry) for entry in ready)
            self._waiting[number] = held[len(ready) :]
        return [taken[seq] for seq in sorted(taken)]

    async def shortfall(self) -> int:
        return sum([await pages.shortfall() for pages in self._each])

    def forget(self) -> None:
        for pages in self._each:
            pages.forget()
