"""What is to be seen of a recorded terminal, as rows to be drawn."""

from typing import NamedTuple

from infra.terminal import ansi
from infra.terminal.emulator import Emulator
from services.cli.player_window import Size, clipped, window


class Picture(NamedTuple):
    size: Size
    rows: list[str]
    """As many as the size has: text and SGR sequences."""
    cursor: tuple[int, int] | None
    """Its x and y, where it is to be seen."""
    part_of: Size | None
    """The recorded terminal, where not all of it is shown."""


def picture_of(terminal: Emulator, shown: Size) -> Picture:
    cursor = terminal.cursor
    recorded = Size(terminal.rows, terminal.cols)
    part = window(recorded, shown, cursor.x, cursor.y)
    spans = terminal.spans()[part.top : part.top + shown.rows]
    rows = [ansi.render(clipped(line, part.left, shown.cols)) for line in spans]
    rows += [""] * (shown.rows - len(rows))
    at = (cursor.x - part.left, cursor.y - part.top)
    return Picture(shown, rows, None if cursor.hidden or not shown.rows else at, recorded if part.is_part else None)
