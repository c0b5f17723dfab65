"""The newest items of a feed, as many as there is room for."""

import bisect

from services.gateway.live.items import Item

BATCH_BYTES = 256 * 1024
BATCH_ITEMS = 256


class Ring:
    """Items have positions, which only ever grow, whereas sequences are given again after a log has lost its end."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Every item from this sequence on is here, or will be."""
        self.begin = self.end = 0
        """Positions: of the oldest item, and behind the newest."""
        self.bytes = 0
        self._items: dict[int, Item] = {}
        self._ordered = 0
        """From this position on the sequences only grow."""

    @property
    def newest(self) -> int:
        """The last sequence here; 0 for none."""
        return self._items[self.end - 1].sequence if self.end > self.begin else 0

    def append(self, item: Item) -> None:
        if item.sequence < self.newest:
            self._ordered, self.floor = self.end, item.sequence
        self._items[self.end] = item
        self.end += 1
        self.bytes += item.size

    def position_of(self, sequence: int) -> int | None:
        """Of the first item at or after a sequence, there or to come; None where older ones are missing here."""
        if sequence < self.floor:
            return None
        return bisect.bisect_left(range(self.end), sequence, lo=self._ordered, key=lambda at: self._items[at].sequence)

    def take(self, position: int) -> list[Item]:
        """From a position on, at least one if there is any. What is not here any more is not to be asked for."""
        taken: list[Item] = []
        size = 0
        for at in range(position, min(self.end, position + BATCH_ITEMS)):
            item = self._items[at]
            size += item.size
            if taken and size > BATCH_BYTES:
                break
            taken.append(item)
        return taken

    def position_that_frees(self, wanted: int) -> int:
        """Dropping everything before it frees so many bytes."""
        at, freed = self.begin, 0
        while freed < wanted and at < self.end:
            freed += self._items[at].size
            at += 1
        return at

    def drop(self, position: int) -> None:
        """Everything before it."""
        for at in range(self.begin, position):
            item = self._items.pop(at)
            self.bytes -= item.size
            if at >= self._ordered:
                self.floor = item.sequence + 1
        self.begin = max(self.begin, position)
        self._ordered = max(self._ordered, self.begin)
