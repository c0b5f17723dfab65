"""The lines of a block of text in which a regular expression matches."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from contracts.spelling import spell

MAX_LINE = 1000
"""Characters of a line that are told."""


class Line(NamedTuple):
    number: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def lines_with(regexp: Any, data: bytes, first: int, context: int) -> Iterator[Line]:
    """Each line once, however often it matches. `first` is the number of the block's first line."""
    at, counted, number = 0, 0, first
    while at < len(data) and (match := regexp.search(data, at)) is not None:
        begin = data.rfind(b"\n", 0, match.start()) + 1
        if begin == len(data):
            return
        end = data.find(b"\n", match.end())
        end = len(data) if end < 0 else end
        number += data.count(b"\n", counted, begin)
        counted = begin
        before, after = _before(data, begin, context), _after(data, end, context)
        yield Line(number, _text(data[begin:end]), before, after)
        at = end + 1


def _before(data: bytes, begin: int, context: int) -> tuple[str, ...]:
    start = begin
    for _ in range(context):
        if start == 0:
            break
        start = data.rfind(b"\n", 0, start - 1) + 1
    return tuple(_text(line) for line in data[start : begin - 1].split(b"\n")) if start < begin else ()


def _after(data: bytes, end: int, context: int) -> tuple[str, ...]:
    found: list[str] = []
    at = end + 1
    while len(found) < context and at < len(data):
        stop = data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop
        found.append(_text(data[at:stop]))
        at = stop + 1
    return tuple(found)


def _text(line: bytes) -> str:
    return spell(line[: MAX_LINE * 4]).text[:MAX_LINE].rstrip("\r")
