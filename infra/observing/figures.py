"""Figures that a process keeps of itself: plain numbers, so that counting costs an addition and nothing is imported.

A label has a known set of values, or a bounded number of them: what is beyond is counted as `other`. So nobody can make
a process keep a figure for everything that they name. Never a sandbox, a command or a run.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, NamedTuple, Protocol, TypeVar

OTHER = "other"
MOST_CHILDREN = 500
SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


Fold = Callable[[Iterable[float]], float]
"""`sum`, `min` or `max`."""


class Number:
    """One line of a counter or gauge. On a hot path hold it and add to `value`."""

    __slots__ = ("_fold", "asks", "value")

    def __init__(self, fold: Fold = sum) -> None:
        self._fold = fold
        self.value: float = 0
        self.asks: tuple[Callable[[], float], ...] = ()
        """Of those who know it anyway."""

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def set(self, value: float) -> None:
        self.value = value

    def now(self) -> float:
        return self.value + (self._fold([ask() for ask in self.asks]) if self.asks else 0)


class Spread:
    """One histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Less than nothing is told where clocks disagree, and counts as nothing."""
        value = max(value, 0.0)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Line(Protocol):
    """What a figure has for one combination of values."""


L = TypeVar("L", bound=Line)
Labels = Mapping[str, Iterable[str] | None]
"""Each label's values; None where they are not known beforehand."""


class Figure(Generic[L]):
    """One name with all its lines. `owner` is the service that has it; `bus` = each that has a connection."""

    kind = ""

    def __init__(
        self,
        name: str,
        words: str,
        owner: str,
        labels: Labels | None = None,
        *,
        begins_with: Iterable[tuple[str, ...]] = (),
    ) -> None:
        """`begins_with`: lines that are nought before anything happens, where the labels do not say which."""
        self.name = name
        self.words = words
        self.owner = owner
        self.begins_with = tuple(begins_with)
        self.labels = {label: None if values is None else frozenset(values) for label, values in (labels or {}).items()}
        self._lines: dict[tuple[str, ...], L] = {}

    def of(self, *values: str) -> L:
        """The line with these values, in the order of the labels."""
        line = self._lines.get(values)
        return self._find(values) if line is None else line

    def forget(self, *values: str) -> None:
        """What it counted is gone, as a consumer or a follower may be."""
        self._lines.pop(values, None)

    def lines(self) -> Iterator[tuple[tuple[str, ...], L]]:
        return iter(list(self._lines.items()))

    def _find(self, values: tuple[str, ...]) -> L:
        known = tuple(
            value if allowed is None or value in allowed else OTHER
            for value, allowed in zip(values, self.labels.values(), strict=True)
        )
        if known not in self._lines and len(self._lines) >= MOST_CHILDREN:
            known = (OTHER,) * len(known)
        return self._lines.setdefault(known, self._make())

    def _make(self) -> L:
        raise NotImplementedError


class _Numbers(Figure[Number]):
    def add(self, *values: str, amount: float = 1) -> None:
        self.of(*values).value += amount

    def _make(self) -> Number:
        return Number()


class Counter(_Numbers):
    """Only grows. Shown as `<name>_total`."""

    kind = "counter"


class Gauge(_Numbers):
    """Goes up and down."""

    kind = "gauge"

    def __init__(self, name: str, words: str, owner: str, labels: Labels | None = None, *, fold: Fold = sum) -> None:
        """`fold`: of what several know who are in one process, as partitions are."""
        super().__init__(name, words, owner, labels)
        self._fold = fold

    def _make(self) -> Number:
        return Number(self._fold)

    def set(self, value: float, *values: str) -> None:
        self.of(*values).value = value

    @contextmanager
    def asking(self, ask: Callable[[], float], *values: str) -> Iterator[None]:
        """While it is open, whenever somebody looks. `ask` must not raise or take long."""
        line = self.of(*values)
        line.asks = (*line.asks, ask)
        try:
            yield
        finally:
            line.asks = tuple(each for each in line.asks if each is not ask)

    async def show(self, ask: Callable[[], float], *values: str) -> None:
        """The same as a task: until it is cancelled."""
        with self.asking(ask, *values):
            await asyncio.Event().wait()


class Histogram(Figure[Spread]):
    kind = "histogram"

    def __init__(
        self,
        name: str,
        words: str,
        owner: str,
        labels: Labels | None = None,
        bounds: tuple[float, ...] = SHORT_S,
    ) -> None:
        super().__init__(name, words, owner, labels)
        self.bounds = bounds

    def observe(self, value: float, *values: str) -> None:
        self.of(*values).observe(value)

    def _make(self) -> Spread:
        return Spread(self.bounds)


class Sample(NamedTuple):
    """For tests, and for whoever wants one number."""

    labels: tuple[str, ...]
    value: float


def samples(figure: Counter | Gauge) -> list[Sample]:
    return [Sample(labels, line.now()) for labels, line in figure.lines()]
