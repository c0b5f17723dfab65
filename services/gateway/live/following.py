"""A client's way through the log: pages of what is stored until it has caught up, then the feed that it shares."""

import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.gaps import Gap
from infra.log.view import LogView
from services.gateway.live.feed import Feed, Feeds
from services.gateway.live.items import Item, gap_item, item_of
from services.gateway.live.ring import BATCH_BYTES, BATCH_ITEMS
from services.gateway.live.selection import Selection
from services.gateway.live.sight import Sight

SHARE = 8
"""Pages of so much less than a reader's own: many read at a time."""


class Following:
    """Items in order, some at a time, each once. Whoever asks for the next has passed on those before."""

    def __init__(self, bus: Bus, feeds: Feeds, sight: Sight, selection: Selection, cursor: int) -> None:
        self.cursor = cursor
        """Everything before it was passed on."""
        self._bus = bus
        self._feeds = feeds
        self._sight = sight
        self._selection = selection

    async def batches(self) -> AsyncGenerator[list[Item], None]:
        """For ever. Raises what ends the log's follower, `Unavailable` at the gateway's end."""
        head = (await reader.patiently(self._bus, reader.bounds)).last
        if self.cursor > head + 1:
            # Whoever has seen more than there is followed a log that has lost its end since.
            yield [gap_item(Gap(head + 1, self.cursor - 1))._replace(sequence=head)]
            self.cursor = head + 1
        async with self._feeds.joined(self._selection.filters, self.cursor) as feed:
            while True:
                position = feed.ring.position_of(self.cursor)
                source = self._stored() if position is None else self._shared(feed, position)
                async with contextlib.aclosing(source) as batches:
                    async for batch in batches:
                        if seen := await self._seen(batch):
                            yield seen
                        self.cursor = batch[-1].sequence + 1

    async def _shared(self, feed: Feed, position: int) -> AsyncGenerator[list[Item], None]:
        """Until it has fallen behind."""
        with feed.taking(position) as taker:
            # The feed may have to come to the cursor yet.
            begun = self.cursor
            while (items := await feed.take(taker)) is not None:
                if fresh := _from(begun, items):
                    begun = 0
                    yield fresh
                feed.took(taker, items)

    async def _stored(self) -> AsyncGenerator[list[Item], None]:
        """Up to the head of this moment."""
        head = (await reader.patiently(self._bus, reader.bounds)).last
        batch = Batch()
        entries = reader.read(
            self._bus, self._selection.filters, self.cursor, follow=False, end=head, on_gap=batch.lacks, share=SHARE
        )
        async with contextlib.aclosing(batch.filled(entries)) as batches:
            async for items in batches:
                yield items
        self.cursor = max(self.cursor, head + 1)

    async def _seen(self, items: list[Item]) -> list[Item]:
        wanted = [item for item in items if not item.sandbox or self._selection.wants(item)]
        if self._sight.everything:
            return wanted
        return [item for item in wanted if not item.sandbox or await self._sight.sees(item.sandbox)]


def _from(sequence: int, items: list[Item]) -> list[Item]:
    """A gap may be a log that has lost its end, and gives the same sequences again: from there on all are new."""
    return list(itertools.dropwhile(lambda item: bool(item.sandbox) and item.sequence < sequence, items))


class Batch:
    """Entries of the log as items, some at a time."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._bytes = 0

    def lacks(self, gap: Gap) -> None:
        self._add(gap_item(gap, told_after=self._items[-1].sequence if self._items else 0))

    async def filled(self, entries: AsyncIterator[reader.Entry]) -> AsyncGenerator[list[Item], None]:
        async with contextlib.aclosing(entries) as closing:  # type: ignore[type-var]
            async for entry in closing:
                self._add(item_of(entry))
                if self._bytes >= BATCH_BYTES or len(self._items) >= BATCH_ITEMS:
                    yield self._taken()
        if self._items:
            yield self._taken()

    def _add(self, item: Item) -> None:
        self._items.append(item)
        self._bytes += item.size

    def _taken(self) -> list[Item]:
        items, self._items, self._bytes = self._items, [], 0
        return items


async def archived(view: LogView, filters: Sequence[str], cursor: int) -> AsyncGenerator[list[Item], None]:
    """Of an imported sandbox: what there is, and never more."""
    async with contextlib.aclosing(Batch().filled(view.read(filters, cursor))) as batches:
        async for items in batches:
            yield items
