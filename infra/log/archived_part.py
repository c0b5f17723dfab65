"""What one file brought into the archive: messages in the order of their own log, among those of other files."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from contracts import subjects
from contracts.archives import ID_HEADER, SEQUENCE_HEADER, STORED_AT_HEADER, ImportedPart
from contracts.errors import Invalid
from contracts.streams import ARCHIVE_STREAM
from infra.bus import headers, page, reader
from infra.bus.connection import Bus
from infra.bus.page import PAGE_BYTES, PAGE_ENTRIES, Entry, Page

REMEMBERED = 256
"""Places of sequences in the archive."""
_SEQUENCE, _STORED_AT, _ID = (name.encode() for name in (SEQUENCE_HEADER, STORED_AT_HEADER, ID_HEADER))


class ArchivedPart:
    """From `first` to `last`, in sequences of its own log."""

    def __init__(self, bus: Bus, part: ImportedPart, first: int, last: int) -> None:
        self._bus = bus
        self._part = part
        self.first = first
        self.last = last
        self._everything = self._archived(subjects.LOG)
        self._places: OrderedDict[int, int] = OrderedDict()

    async def read(self, filter_: str, start: int, end: int | None, max_bytes: int) -> AsyncIterator[Entry]:
        """Lost connections are waited out. Raises `Denied`."""
        start, end = max(start, self.first), self.last if end is None else min(end, self.last)
        if start > end:
            return
        place = await reader.patiently(self._bus, lambda _: self._place(start))
        while place <= self._part.archived_last:
            found = await reader.patiently(self._bus, lambda _: self._page(filter_, place, PAGE_ENTRIES, max_bytes))  # noqa: B023
            for stored in found.entries:
                entry = original(stored)
                if entry.seq > end:
                    return
                yield entry
            if not found.entries or not found.pending:
                return
            place = found.entries[-1].seq + 1

    async def first_of(self, filter_: str, start: int) -> Entry | None:
        """Raises `Unavailable`."""
        found = await self._page(filter_, await self._place(max(start, self.first)), 1, PAGE_BYTES)
        entry = original(found.entries[0]) if found.entries else None
        return entry if entry is not None and entry.seq <= self.last else None

    async def last_of(self, filter_: str) -> Entry | None:
        """Raises `Unavailable`."""
        stored = await page.fetch_last(self._bus, self._archived(filter_), stream=ARCHIVE_STREAM)
        entry = None if stored is None else original(stored)
        if entry is not None and entry.seq > self.last:
            # The next part has it. The server can be asked for the last of all, not for the last before that.
            entry = None
            async for each in self.read(filter_, self.first, None, PAGE_BYTES):
                entry = each
        return entry if entry is not None and entry.seq >= self.first else None

    async def lasts(self, filters: Sequence[str], up_to: int | None) -> list[Entry]:
        """Raises `Unavailable`."""
        last = self.last if up_to is None else min(up_to, self.last)
        place = await self._place(last + 1) - 1
        if last < self.first or place < self._part.archived_first:
            return []
        wanted = [self._archived(each) for each in filters]
        found = await page.fetch_lasts(self._bus, wanted, up_to=place, stream=ARCHIVE_STREAM)
        entries = [original(entry) for entry in found]
        return [entry for entry in entries if entry.seq >= self.first]

    async def _page(self, filter_: str, place: int, limit: int, max_bytes: int) -> Page:
        return await page.fetch(
            self._bus, self._archived(filter_), place, limit=limit, max_bytes=max_bytes, stream=ARCHIVE_STREAM
        )

    def _archived(self, filter_: str) -> str:
        return subjects.archived(self._part.import_id, filter_)

    async def _place(self, sequence: int) -> int:
        """Where in the archive the first lies that has this sequence or a later one; behind the last if none has."""
        if sequence <= self._part.first_imported:
            return self._part.archived_first
        if sequence > self._part.last_imported:
            return self._part.archived_last + 1
        if sequence not in self._places:
            self._places[sequence] = await self._search(sequence)
            if len(self._places) > REMEMBERED:
                self._places.popitem(last=False)
        return self._places[sequence]

    async def _search(self, sequence: int) -> int:
        low, high = self._part.archived_first, self._part.archived_last
        while low < high:
            middle = (low + high) // 2
            found = await page.fetch(self._bus, self._everything, middle, limit=1, stream=ARCHIVE_STREAM)
            if not found.entries or original(found.entries[0]).seq >= sequence:
                high = middle
            else:
                low = found.entries[0].seq + 1
        return low


def original(entry: Entry) -> Entry:
    """As it was in its own log. Raises `Invalid` for what is no imported event."""
    sequence = headers.get(entry.headers, _SEQUENCE)
    if sequence is None or not sequence.isdigit():
        raise Invalid(f"message {entry.seq} of the archive is no imported event")
    return Entry(
        int(sequence),
        subjects.unarchived(entry.subject),
        entry.data,
        headers.get(entry.headers, _STORED_AT) or "",
        headers.get(entry.headers, _ID) or "",
        entry.headers,
    )
