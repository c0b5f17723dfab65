"""A unified diff of two texts in bounded time, whatever the texts are."""

from collections.abc import Iterator
from typing import NamedTuple

CONTEXT = 3
MOST_EDITS = 300
"""Lines that may differ before the middle of a text counts as replaced as a whole. Effort grows with it."""
MOST_LINES = 5000
NO_NEWLINE = "\\ No newline at end of file\n"


class Edit(NamedTuple):
    """Lines `old_from` to `old_to` became lines `new_from` to `new_to`, counted from 0, ends excluded."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def unified(old: str, new: str, path: str) -> str | None:
    """As `diff -u` writes it, so that `patch` turns `old` into `new`; None where there are too many lines."""
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > MOST_LINES:
        return None
    hunks = [_hunk(before, after, edits) for edits in _near(edits_between(before, after))]
    name = path.replace("\n", "\\n").replace("\r", "\\r").lstrip("/")
    return "".join([f"--- a/{name}\n+++ b/{name}\n", *hunks]) if hunks else ""


def _lines(text: str) -> list[str]:
    """Broken at line feeds and nowhere else: Python's own would also break at form feeds and the like."""
    found = [f"{line}\n" for line in text.split("\n")]
    last = found.pop()[:-1]
    return [*found, last] if last else found


def edits_between(old: list[str], new: list[str]) -> list[Edit]:
    """The fewest edits, or one edit for all between the first and the last difference if it would take too many."""
    head = _common(old, new, 0)
    tail = _common(old[head:][::-1], new[head:][::-1], 0)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if not before and not after:
        return []
    steps = _shortest(before, after) if before and after else None
    whole = [Edit(head, head + len(before), head, head + len(after))]
    return whole if steps is None else _joined(steps, head)


def _common(one: list[str], other: list[str], start: int) -> int:
    most = min(len(one), len(other))
    at = start
    while at < most and one[at] == other[at]:
        at += 1
    return at


def _shortest(old: list[str], new: list[str]) -> list[tuple[int, int]] | None:
    """Myers' greedy algorithm: the points (x, y) before each single edit, first to last; None beyond `MOST_EDITS`."""
    reach = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(MOST_EDITS + 1):
        history.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= len(old) and y >= len(new):
                return _walk_back(history, len(old), len(new))
    return None


def _walk_back(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Where each single line is inserted, or deleted: a deletion's y is written as its complement."""
    points: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, 0, -1):
        reach, diagonal = history[edits], x - y
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        x = reach[before]
        y = x - before
        points.append((x, y) if down else (x, ~y))
    return points[::-1]


def _joined(points: list[tuple[int, int]], offset: int) -> list[Edit]:
    """Single lines next to one another as one edit."""
    edits: list[Edit] = []
    for x, mark in points:
        deletes, y = mark < 0, mark if mark >= 0 else ~mark
        old_from, new_from = x + offset, y + offset
        last = edits[-1] if edits else None
        if last is not None and (last.old_to, last.new_to) == (old_from, new_from):
            edits.pop()
            old_from, new_from = last.old_from, last.new_from
        edits.append(Edit(old_from, x + offset + deletes, new_from, y + offset + (not deletes)))
    return edits


def _near(edits: list[Edit]) -> Iterator[list[Edit]]:
    """Edits whose context would touch share a hunk."""
    group: list[Edit] = []
    for edit in edits:
        if group and edit.old_from - group[-1].old_to > 2 * CONTEXT:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _hunk(old: list[str], new: list[str], edits: list[Edit]) -> str:
    old_from, old_to = max(0, edits[0].old_from - CONTEXT), min(len(old), edits[-1].old_to + CONTEXT)
    new_from = edits[0].new_from - (edits[0].old_from - old_from)
    new_to = edits[-1].new_to + (old_to - edits[-1].old_to)
    body: list[str] = []
    at = old_from
    for edit in edits:
        body += [_shown(" ", line) for line in old[at : edit.old_from]]
        body += [_shown("-", line) for line in old[edit.old_from : edit.old_to]]
        body += [_shown("+", line) for line in new[edit.new_from : edit.new_to]]
        at = edit.old_to
    body += [_shown(" ", line) for line in old[at:old_to]]
    return f"@@ -{_range(old_from, old_to)} +{_range(new_from, new_to)} @@\n" + "".join(body)


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _shown(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n{NO_NEWLINE}"
