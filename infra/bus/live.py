"""What the server repeats of the log as it is stored: fast, and lossy by nature, so it says when it may have lost."""

import asyncio
import collections
import contextlib
import operator
from collections.abc import AsyncIterator, Sequence

from nats import errors as nats_errors

from infra.bus.connection import Bus
from infra.bus.page import Entry, entry_of

_sequence = operator.attrgetter("seq")
MAX_BYTES = 8 * 1024 * 1024
OVERHEAD = 1024


class Live:
    """Entries in the order of the log. An entry that matches several filters comes several times."""

    def __init__(self) -> None:
        self._waiting: collections.deque[Entry] = collections.deque()
        self._bytes = 0
        self._lost = False
        self._news = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, bus: Bus, filters: Sequence[str]) -> AsyncIterator["Live"]:
        """In place at the server for whatever this connection sends next."""
        live = cls()
        async with contextlib.AsyncExitStack() as open_taps:
            for each in filters:
                open_taps.push_async_callback(_untap, bus, await bus.client.tap(each, live._arrived))
            open_taps.callback(bus.on_lost(live._lose))
            yield live

    def reset(self) -> None:
        """From here on nothing is missing, until it is."""
        self._waiting.clear()
        self._bytes = 0
        self._lost = False

    async def next(self, patience_s: float) -> Entry | None:
        """The next entry; None when one may be missing, or when none came for so long that it is worth a look."""
        while not self._waiting and not self._lost:
            self._news.clear()
            try:
                async with asyncio.timeout(patience_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        if self._lost:
            return None
        entry = self._waiting.popleft()
        self._bytes -= len(entry.data) + OVERHEAD
        return entry

    def newest(self, known: Entry) -> Entry:
        """Of `known` and those that wait, which are forgotten."""
        found = max(known, *self._waiting, key=_sequence) if self._waiting else known
        self._waiting.clear()
        self._bytes = 0
        return found

    def _arrived(self, _subject: bytes, _reply: bytes, data: bytes, raw: bytes | None) -> None:
        # What this user publishes itself comes here too, unstored as yet and without a sequence.
        entry = entry_of(data, raw)
        if entry is None or self._lost:
            return
        self._bytes += len(data) + OVERHEAD
        self._waiting.append(entry)
        if self._bytes > MAX_BYTES:
            self._lose()
        self._news.set()

    def _lose(self) -> None:
        self._lost = True
        self._waiting.clear()
        self._news.set()


async def _untap(bus: Bus, tap: int) -> None:
    with contextlib.suppress(nats_errors.Error, OSError):
        await bus.client.untap(tap)
