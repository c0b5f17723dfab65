"""A session of another log, as it was there: its own sequences, subjects, ids and times."""

from collections.abc import AsyncIterator, Sequence

from contracts.archives import Imported
from infra.blobs.blobs import Blobs
from infra.bus.connection import Bus
from infra.bus.page import PAGE_BYTES, Entry
from infra.bus.reader import Bounds, Gap, OnGap
from infra.log.archived_part import ArchivedPart
from infra.log.merging import merged

LEAST_PAGE_BYTES = 256 * 1024


class ArchivedView:
    """What was imported of one sandbox, and came with it. What there is never changes."""

    def __init__(self, bus: Bus, record: Imported) -> None:
        self.record = record
        self.blobs = Blobs(bus)
        following = [*(part.first_sequence for part in record.parts[1:]), None]
        self._parts = [
            ArchivedPart(
                bus,
                part,
                first=part.first_sequence if number else min(part.first_imported, part.first_sequence),
                # What proves the end of one part may lie where the next one has begun, which has it too.
                last=part.last_imported if after is None else after - 1,
            )
            for number, (part, after) in enumerate(zip(record.parts, following, strict=True))
        ]

    async def bounds(self) -> Bounds:
        return Bounds(self._parts[0].first, self._parts[-1].last)

    def read(
        self,
        filters: Sequence[str],
        start: int = 1,
        *,
        end: int | None = None,
        on_gap: OnGap | None = None,  # noqa: ARG002  what was imported has none
    ) -> AsyncIterator[Entry]:
        if len(filters) == 1:
            return self._read(filters[0], start, end, PAGE_BYTES)
        # So many pages are in memory at a time.
        each = max(PAGE_BYTES // max(len(filters), 1), LEAST_PAGE_BYTES)
        return merged([self._read(filter_, start, end, each) for filter_ in filters])

    async def _read(self, filter_: str, start: int, end: int | None, max_bytes: int) -> AsyncIterator[Entry]:
        for part in self._parts:
            async for entry in part.read(filter_, start, end, max_bytes):
                yield entry

    async def lost(self, first: int, last: int) -> list[Gap]:  # noqa: ARG002  what was imported has none
        return []

    async def first(self, filter_: str, *, start: int = 1) -> Entry | None:
        for part in self._parts:
            if (found := await part.first_of(filter_, start)) is not None:
                return found
        return None

    async def last(self, filter_: str) -> Entry | None:
        for part in reversed(self._parts):
            if (found := await part.last_of(filter_)) is not None:
                return found
        return None

    async def lasts(self, subjects: Sequence[str], *, up_to: int | None = None) -> list[Entry]:
        found: dict[str, Entry] = {}
        for part in reversed(self._parts):
            for entry in await part.lasts(subjects, up_to):
                found.setdefault(entry.subject, entry)
        return list(found.values())
