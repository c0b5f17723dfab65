"""Two sequences laid side by side: which elements of one are which of the other, in order.

Patience first (what is unique in both holds the rest in place), then the longest blocks, then, where both would take
too long, the nearest match. Time and memory go with the lengths, never with their product.
"""

import difflib
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from typing import NamedTuple

MOST_PRODUCT = 40_000
"""Of the lengths of two stretches that are compared block by block."""
ROWS = (4, 16)
"""How many neighbours together may be unique where no single element is."""
DEPTH = 32
"""How often an element may be looked at for what is unique, on the average: stretches within stretches."""
FARTHEST = 1000
"""How far the nearest match may be."""


class Pair(NamedTuple):
    """Indices; None on one side = only in the other."""

    a: int | None
    b: int | None


class _Stretch(NamedTuple):
    a: int
    a_end: int
    b: int
    b_end: int


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Every index of both, once, in an order that keeps each side's own."""
    pairs: list[Pair] = []
    done_a = done_b = 0
    for at_a, at_b in _matches(a, b):
        pairs += (Pair(index, None) for index in range(done_a, at_a))
        pairs += (Pair(None, index) for index in range(done_b, at_b))
        pairs.append(Pair(at_a, at_b))
        done_a, done_b = at_a + 1, at_b + 1
    pairs += (Pair(index, None) for index in range(done_a, len(a)))
    pairs += (Pair(None, index) for index in range(done_b, len(b)))
    return pairs


def _matches(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    stack = [_Stretch(0, len(a), 0, len(b))]
    left = DEPTH * (len(a) + len(b))
    while stack:
        rest = _trimmed(a, b, stack.pop(), found)
        if rest.a == rest.a_end or rest.b == rest.b_end:
            continue
        is_small = (rest.a_end - rest.a) * (rest.b_end - rest.b) <= MOST_PRODUCT
        left -= rest.a_end - rest.a + rest.b_end - rest.b
        anchors = _anchors(a, b, rest, (1,) if is_small else (1, *ROWS)) if left > 0 else []
        if anchors:
            begin_a, begin_b = rest.a, rest.b
            for at_a, at_b in anchors:
                stack.append(_Stretch(begin_a, at_a, begin_b, at_b))
                begin_a, begin_b = at_a + 1, at_b + 1
            found += anchors
            stack.append(_Stretch(begin_a, rest.a_end, begin_b, rest.b_end))
        elif is_small:
            found += _blocks(a, b, rest)
        else:
            found += _nearest(a, b, rest)
    return sorted(found)


def _trimmed(a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch, found: list[tuple[int, int]]) -> _Stretch:
    """Without what is the same at both ends."""
    begin_a, end_a, begin_b, end_b = stretch
    while begin_a < end_a and begin_b < end_b and a[begin_a] == b[begin_b]:
        found.append((begin_a, begin_b))
        begin_a, begin_b = begin_a + 1, begin_b + 1
    while begin_a < end_a and begin_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
        found.append((end_a, end_b))
    return _Stretch(begin_a, end_a, begin_b, end_b)


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch, lengths: Sequence[int]
) -> list[tuple[int, int]]:
    """What is there once on either side, as far as its order is the same: the longest such row."""
    for length in lengths:
        once_a = _once(a, stretch.a, stretch.a_end, length)
        once_b = _once(b, stretch.b, stretch.b_end, length)
        both = sorted((at_a, once_b[key]) for key, at_a in once_a.items() if key in once_b)
        if both:
            return _longest_row(both)
    return []


def _once(of: Sequence[Hashable], begin: int, end: int, length: int) -> dict[Hashable, int]:
    seen: dict[Hashable, int] = {}
    for index in range(begin, end - length + 1):
        key = of[index] if length == 1 else tuple(of[index : index + length])
        seen[key] = index if key not in seen else -1
    return {key: index for key, index in seen.items() if index >= 0}


def _longest_row(both: list[tuple[int, int]]) -> list[tuple[int, int]]:
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for index, (_, at_b) in enumerate(both):
        place = bisect_left(ends, at_b)
        before.append(last[place - 1] if place else None)
        ends[place : place + 1] = [at_b]
        last[place : place + 1] = [index]
    row: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        row.append(both[at])
        at = before[at]
    return row[::-1]


def _blocks(a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch) -> list[tuple[int, int]]:
    matcher = difflib.SequenceMatcher(None, a[stretch.a : stretch.a_end], b[stretch.b : stretch.b_end], autojunk=False)
    return [
        (stretch.a + block.a + step, stretch.b + block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]


def _nearest(a: Sequence[Hashable], b: Sequence[Hashable], stretch: _Stretch) -> list[tuple[int, int]]:
    places: dict[Hashable, list[int]] = {}
    for index in range(stretch.b, stretch.b_end):
        places.setdefault(b[index], []).append(index)
    found: list[tuple[int, int]] = []
    after = stretch.b - 1
    for at_a in range(stretch.a, stretch.a_end):
        where = places.get(a[at_a], [])
        place = bisect_right(where, after)
        if place < len(where) and where[place] - after <= FARTHEST:
            after = where[place]
            found.append((at_a, after))
    return found
