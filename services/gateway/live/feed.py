"""One follower of the log for everybody who has the same filters."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

from contracts.errors import ClocheError, Unavailable
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.gaps import Gap
from infra.bus.page import Entry
from services.gateway import metrics
from services.gateway.live.items import Item, gap_item, item_of
from services.gateway.live.ring import Ring

ALL_RINGS = 64 << 20
"""Bytes of ready items, of all feeds."""
LARGEST_RING = 16 << 20
LEAST_RING = 512 << 10
RECENT = 256
"""Sequences before the head that a new feed begins with: a crowd that comes back after a restart reads them once."""
PATIENCE_S = 1.0
"""How long those who lag behind can keep the others waiting, before a part of the ring goes on without them."""
PAUSE_BYTES = 128 * 1024
"""After so much, those who wait for it have a turn."""


class Taker:
    """A place in a feed."""

    def __init__(self, position: int) -> None:
        self.position = position


class Feed:
    """Clients take from its ring at their own pace. It never waits for a few that are slow, only for the many."""

    def __init__(self, bus: Bus, filters: Sequence[str], feeds: "Feeds") -> None:
        self.users = 0
        self.ring = Ring(1)
        self._bus = bus
        self._filters = filters
        self._feeds = feeds
        self._takers: set[Taker] = set()
        self._opened = asyncio.Event()
        self._news = asyncio.Event()
        self._moved = asyncio.Event()
        self._unpaused = 0
        self._failure: ClocheError | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, cursor: int) -> None:
        self._task = asyncio.create_task(self._run(cursor), name=f"feed of {self._filters[0]}")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def opened(self) -> None:
        """Raises what ended it."""
        await self._opened.wait()
        self._raise_failure()

    @contextlib.contextmanager
    def taking(self, position: int) -> Iterator[Taker]:
        taker = Taker(position)
        self._takers.add(taker)
        try:
            yield taker
        finally:
            self._takers.discard(taker)
            self._moved.set()

    async def take(self, taker: Taker) -> list[Item] | None:
        """What is next, once there is something; None for one that has fallen behind. Raises what ended the feed."""
        while taker.position >= self.ring.end:
            self._raise_failure()
            self._news.clear()
            await self._news.wait()
        return self.ring.take(taker.position) if taker.position >= self.ring.begin else None

    def took(self, taker: Taker, items: Sequence[Item]) -> None:
        taker.position += len(items)
        self._moved.set()

    async def _run(self, cursor: int) -> None:
        try:
            head = (await reader.patiently(self._bus, reader.bounds)).last
            begin = min(max(cursor, head - RECENT + 1, 1), head + 1)
            self.ring = Ring(begin)
            self._opened.set()
            async for entry in reader.read(self._bus, self._filters, begin, follow=True, on_gap=self._lacks):
                await self._append(entry)
        except ClocheError as error:
            self._failure = error
        else:
            self._failure = Unavailable("the log has ended")
        finally:
            self._opened.set()
            self._news.set()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._task is not None and self._task.done():
            raise Unavailable("whoever follows the log for you has ended: connect again")

    def _lacks(self, gap: Gap) -> None:
        self.ring.append(gap_item(gap, told_after=self.ring.newest))
        self._news.set()

    async def _append(self, entry: Entry) -> None:
        item = item_of(entry)
        self.ring.append(item)
        self._news.set()
        self._unpaused += item.size
        if self.ring.bytes > self._feeds.room:
            await self._make_room(self._feeds.room)
        if self._unpaused > PAUSE_BYTES:
            self._unpaused = 0
            metrics.feed_lag((clock.now() - entry.time).total_seconds())
            await asyncio.sleep(0)

    async def _make_room(self, room: int) -> None:
        position = self.ring.position_that_frees(self.ring.bytes - room * 7 // 8)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self._needed_by_most(position):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            position = self.ring.position_that_frees(self.ring.bytes - room // 2)
        self.ring.drop(position)

    def _needed_by_most(self, position: int) -> bool:
        behind = sum(taker.position < position for taker in self._takers)
        return behind * 2 > len(self._takers)


class Feeds:
    """All that are under way."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._by_filters: dict[tuple[str, ...], Feed] = {}

    @property
    def open(self) -> int:
        return len(self._by_filters)

    @property
    def room(self) -> int:
        """Of each ring, in bytes."""
        return max(min(ALL_RINGS // max(len(self._by_filters), 1), LARGEST_RING), LEAST_RING)

    @contextlib.asynccontextmanager
    async def joined(self, filters: tuple[str, ...], cursor: int) -> AsyncIterator[Feed]:
        """The one for these filters, which ends when the last has left. Raises what keeps it from following."""
        feed = self._by_filters.get(filters)
        if feed is None:
            feed = self._by_filters[filters] = Feed(self._bus, filters, self)
            feed.start(cursor)
        feed.users += 1
        try:
            await feed.opened()
            yield feed
        finally:
            feed.users -= 1
            if not feed.users:
                if self._by_filters.get(filters) is feed:
                    del self._by_filters[filters]
                await feed.aclose()
