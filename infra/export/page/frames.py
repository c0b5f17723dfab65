"""The player of a page: what the terminal showed, as lines that changed. The page itself emulates nothing."""

import operator

from contracts.tape import Frame, FrameKind
from infra.export.before import show
from infra.export.page.records import Record
from infra.terminal.emulator import Emulator
from infra.terminal.row import Span
from infra.terminal.style import DEFAULT, NO_COLOUR, Style, rgb

TOGETHER_MS = 33
"""What comes within so long is seen at once."""
WHOLE_EVERY = 200
"""Frames, so that any moment is found quickly."""
PALETTE = 16
MOST_STYLES = 20_000
_FLAGS = (("bold", 1), ("italic", 2), ("underline", 4), ("strike", 8), ("reverse", 16), ("dim", 32))

Line = list[str | int]
"""Text, its style's number, text, …"""


class Frames:
    """Feed the frames of a tape in order; then `close`. `before` is what was on the screen already."""

    def __init__(self, before: Emulator | None = None) -> None:
        self._emulator = before or Emulator(scrollback=0)
        self._styles: dict[Style, int] = {DEFAULT: 0}
        self._records: list[Record] = []
        self._shown: list[list[Span]] = []
        self._since_whole = WHOLE_EVERY
        self._at: int | None = None if before is None else 0
        """When what was fed and not shown yet is to be seen."""
        self._sequence = 0

    def feed(self, at_ms: int, frame: Frame) -> list[Record]:
        if self._at is not None and at_ms - self._at >= TOGETHER_MS:
            self._show()
        if show(self._emulator, frame):
            self._at = at_ms if self._at is None else self._at
            self._sequence = frame.sequence
        if frame.kind == FrameKind.RESIZE:
            self._since_whole = WHOLE_EVERY
        return self._take()

    def close(self) -> list[Record]:
        self._show()
        return self._take()

    def _take(self) -> list[Record]:
        taken, self._records = self._records, []
        return taken

    def _show(self) -> None:
        if self._at is None:
            return
        spans, cursor = self._emulator.spans(), self._emulator.cursor
        place = [cursor.x, cursor.y, int(cursor.hidden)]
        if self._since_whole >= WHOLE_EVERY:
            size = [self._emulator.cols, self._emulator.rows]
            self._records.append(["key", self._at, self._sequence, *size, list(map(self._line, spans)), *place])
            self._since_whole = 0
        else:
            scrolled = _scrolled(self._shown, spans)
            before = [*self._shown[scrolled:], *([] for _ in range(scrolled))]
            changed = [[row, self._line(line)] for row, line in enumerate(spans) if line != before[row]]
            self._records.append(["frame", self._at, self._sequence, changed, *place, scrolled])
            self._since_whole += 1
        self._shown, self._at = spans, None

    def _line(self, spans: list[Span]) -> Line:
        line: Line = []
        for text, style in spans:
            line += [text, self._number(style)]
        return line

    def _number(self, style: Style) -> int:
        number = self._styles.get(style)
        if number is None:
            if len(self._styles) >= MOST_STYLES:
                return 0
            number = self._styles[style] = len(self._styles)
            self._records.append(["style", _colour(style.foreground), _colour(style.background), _flags(style)])
        return number


def _scrolled(before: list[list[Span]], after: list[list[Span]]) -> int:
    """By how many lines, where that leaves less to be painted: what scrolls would be all new otherwise."""
    if before[0] == after[0] or not after[0]:
        return 0
    by = next((row for row, line in enumerate(before) if line == after[0]), 0)
    kept = sum(map(operator.eq, before[by:], after))
    return by if kept > sum(map(operator.eq, before, after)) else 0


def _colour(colour: int) -> int | str | None:
    """One of the first 16, which the page chooses, or `#rrggbb`."""
    if colour == NO_COLOUR or 0 <= colour < PALETTE:
        return None if colour == NO_COLOUR else colour
    return f"#{rgb(colour):06x}"


def _flags(style: Style) -> int:
    return sum(bit for name, bit in _FLAGS if getattr(style, name))
