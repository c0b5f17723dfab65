"""A log a few entries at a time, for whoever reads it slowly: thousands of such readers fit into one process."""

import collections
import contextlib
import datetime
from collections.abc import Sequence

from msgspec import Struct

from contracts import codec
from contracts.errors import Invalid
from contracts.message import Time
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.log.live import LiveView
from infra.log.view import LogView

ENTRIES = 100
BYTES = 128 * 1024


class Ahead:
    """One page at most is in memory, of about `max_bytes` or a single entry. What is away is waited for."""

    def __init__(
        self,
        bus: Bus,
        view: LogView,
        filters: Sequence[str],
        last: int | None,
        *,
        entries: int = ENTRIES,
        max_bytes: int = BYTES,
    ) -> None:
        self._bus = bus
        self._view = view
        self._filters = list(filters)
        self._last = last
        self._limit = entries
        self._max_bytes = max_bytes
        self._entries: collections.deque[Entry] = collections.deque()

    async def after(self, position: int) -> Entry | None:
        """The first event that comes after a sequence; None where there is none up to the last."""
        while self._entries and self._entries[0].seq <= position:
            self._entries.popleft()
        if not self._entries:
            self._entries.extend(await self.page(position + 1))
        return self._entries[0] if self._entries else None

    def forget(self) -> None:
        """For one that waits, or goes on elsewhere."""
        self._entries.clear()

    async def page(self, start: int) -> list[Entry]:
        """The next entries from a sequence on; none where there are none up to the last.

        What the log lacks is passed over: whoever plays this asks the view what was `lost`.
        """
        if self._last is not None and start > self._last:
            return []
        if isinstance(self._view, LiveView):
            found = await reader.patiently(
                self._bus,
                lambda bus: reader.fetch(bus, self._filters, start, limit=self._limit, max_bytes=self._max_bytes),
            )
            return [entry for entry in found.entries if self._last is None or entry.seq <= self._last]
        return await self._few(start)

    async def _few(self, start: int) -> list[Entry]:
        kept: list[Entry] = []
        size = 0
        async with contextlib.aclosing(self._view.read(self._filters, start, end=self._last)) as entries:  # type: ignore[type-var]
            async for entry in entries:
                kept.append(entry)
                size += len(entry.data)
                if len(kept) == self._limit or size > self._max_bytes:
                    break
        return kept


class _Timed(Struct, frozen=True):
    time: Time


def time_of(entry: Entry) -> datetime.datetime:
    """When the event happened; where it does not say so, when it was stored."""
    try:
        timed: _Timed = codec.decode(entry.data, _Timed)
    except Invalid:
        return entry.time
    return timed.time
