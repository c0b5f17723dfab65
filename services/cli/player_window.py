"""The part of a recorded terminal that fits into the person's own. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from infra.terminal.row import Span
from infra.terminal.widths import WIDE, width


class Size(NamedTuple):
    rows: int
    cols: int


class Window(NamedTuple):
    """Where its upper left corner lies on the recorded screen."""

    top: int
    left: int
    is_part: bool
    """There is more of the recorded screen than can be shown."""


def window(recorded: Size, shown: Size, cursor_x: int, cursor_y: int) -> Window:
    """Around the cursor, and as far up and left as that allows: what is being written is what is looked at."""
    top = max(0, cursor_y - shown.rows + 1)
    left = 0
    if cursor_x >= shown.cols:
        # By halves, so that a long line that is being typed does not move at each character.
        half = max(shown.cols // 2, 1)
        left = ((cursor_x - shown.cols) // half + 1) * half
    return Window(top, left, recorded.rows > shown.rows or recorded.cols > shown.cols)


def clipped(spans: Sequence[Span], left: int, cols: int) -> list[Span]:
    """The cells of a line from `left` on, `cols` at most. Half of a wide character is a blank."""
    kept: list[Span] = []
    at = 0
    for span in spans:
        pieces: list[str] = []
        for character in span.text:
            cells = width(character)
            if cells <= 0:
                if pieces and left < at <= left + cols:
                    pieces.append(character if cells == 0 else "")
                continue
            pieces.append(_cell(character, at - left, cols, is_wide=cells == WIDE))
            at += cells
        if text := "".join(pieces):
            kept.append(Span(text, span.style))
        if at >= left + cols:
            break
    return kept


def _cell(character: str, at: int, cols: int, *, is_wide: bool) -> str:
    if not cols or at >= cols or at + (2 if is_wide else 1) <= 0:
        return ""
    if is_wide and (at < 0 or at + 1 >= cols):
        return " "
    return character
