"""The first and the last lines of what a command wrote, in bounded memory."""

import collections
import re
from typing import NamedTuple

from services.cli.showing_items import Excerpt

FIRST = 4
LAST = 4
LOOKED_AT = 16
LONGEST = 400
"""Characters of a line; what is beyond is left out."""

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and the like
    r"|\x1b[ -/]*[0-~]"
)


def plain(line: str) -> str:
    """Without colours and cursor moves."""
    return _ESCAPES.sub("", line).expandtabs(4).rstrip()[:LONGEST]


class Skimmed(NamedTuple):
    first: list[str]
    between: int
    last: list[str]


class Lines:
    """Whole lines of one stream, as it comes in pieces."""

    def __init__(self) -> None:
        self._open = ""

    def feed(self, text: str) -> list[str]:
        *whole, rest = text.split("\n")
        found = self._closed(whole)
        self._grow(rest)
        return found

    def skim(self, text: str) -> "Skimmed":
        """As `feed`, and much faster: of many lines only the first and the last are looked at."""
        *whole, rest = text.split("\n")
        if len(whole) <= 4 * LOOKED_AT:
            found = Skimmed(self._closed(whole), 0, [])
        else:
            middle = whole[LOOKED_AT:-LOOKED_AT]
            first, last = self._closed(whole[:LOOKED_AT]), self._closed(whole[-LOOKED_AT:])
            found = Skimmed(first, len(middle) - middle.count("") - middle.count("\r"), last)
        self._grow(rest)
        return found

    def _closed(self, pieces: list[str]) -> list[str]:
        found = []
        for piece in pieces:
            self._grow(piece)
            found.append(plain(self._open))
            self._open = ""
        return found

    def rest(self) -> list[str]:
        """What no line break ended."""
        rest, self._open = plain(self._open), ""
        return [rest] if rest else []

    def _grow(self, piece: str) -> None:
        line = self._open + piece
        # What was written over does not count: a bar that draws itself again and again is one line.
        _, again, newest = line.rstrip("\r").rpartition("\r")
        self._open = (newest + line[len(line.rstrip("\r")) :] if again else line)[: LONGEST * 4]


class Capture:
    def __init__(self) -> None:
        self._first: list[str] = []
        self._last: collections.deque[str] = collections.deque(maxlen=LAST)
        self._lines = 0

    def add(self, lines: list[str]) -> None:
        for line in lines:
            if not line:
                continue
            self._lines += 1
            if len(self._first) < FIRST:
                self._first.append(line)
            else:
                self._last.append(line)

    def skim(self, skimmed: Skimmed) -> None:
        self.add(skimmed.first)
        self._lines += skimmed.between
        self.add(skimmed.last)

    def excerpt(self) -> Excerpt:
        left_out = self._lines - len(self._first) - len(self._last)
        if left_out == 0:
            return Excerpt(first=(*self._first, *self._last))
        return Excerpt(first=tuple(self._first), left_out=left_out, last=tuple(self._last))


def excerpt_of(text: str, *, full: bool = False) -> Excerpt:
    """Of a text that is there as a whole. `full`: all of it."""
    reading, capture = Lines(), Capture()
    lines = [*reading.feed(text), *reading.rest()]
    capture.add(lines)
    return Excerpt(first=tuple(lines)) if full else capture.excerpt()
