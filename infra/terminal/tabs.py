"""Where a tab goes."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

EVERY = 8


class Tabs:
    def __init__(self, columns: int, stops: Iterable[int] | None = None) -> None:
        self.stops = list(range(EVERY, columns, EVERY)) if stops is None else list(stops)

    def after(self, x: int, columns: int) -> int:
        """The next stop; the last column where there is none."""
        at = bisect_right(self.stops, x)
        return min(self.stops[at], columns - 1) if at < len(self.stops) else columns - 1

    def before(self, x: int) -> int:
        at = bisect_left(self.stops, x)
        return self.stops[at - 1] if at else 0

    def add(self, x: int) -> None:
        if x not in self.stops:
            insort(self.stops, x)

    def discard(self, x: int) -> None:
        if x in self.stops:
            self.stops.remove(x)

    def clear(self) -> None:
        self.stops.clear()

    def widen(self, old: int, new: int) -> None:
        """A wider terminal has stops in its new columns; a narrower one forgets those beyond its end."""
        kept = [stop for stop in self.stops if stop < min(old, new)]
        self.stops = [*kept, *(stop for stop in range(EVERY, new, EVERY) if stop >= old)]
