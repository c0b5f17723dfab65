"""Where a story is shown while it is being told: lines that stay, and below them what still changes."""

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from services.cli.agent_gutter import CONTINUED_ROW, lead_of

LEAST_WIDTH = 20
USUAL_WIDTH = 80
ERASE_BELOW = "\r\x1b[J"


class Prompt(NamedTuple):
    """A line that is being typed."""

    text: str
    cursor: int
    """The cell that the cursor is on."""


class Screen:
    """On a terminal the last rows are drawn again and again; anywhere else lines come one after another."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output or sys.stdout
        self._console = Console(file=self._output, highlight=False, soft_wrap=True, emoji=False, markup=False)
        self.is_live = self._output.isatty()
        self._drawn: list[int] = []
        """Cells in each of the rows that change; of the last, those before the cursor."""

    @property
    def width(self) -> int:
        """As it is now. Without the last column: a row that fills it may or may not be followed by another."""
        try:
            columns = os.get_terminal_size(self._output.fileno()).columns
        except OSError:
            columns = 0
        return max(columns or USUAL_WIDTH, LEAST_WIDTH) - 1

    def show(self, lines: Iterable[Text], tail: Text | None = None, prompt: Prompt | None = None) -> None:
        """Add lines; below them, until the next call, what is not over and what is being typed."""
        if not self.is_live:
            for line in lines:
                self._console.print(line)
            self._output.flush()
            return
        width = self.width
        rows = [row for line in lines for row in self._rows(line, width)]
        written = [self._erased(width), *(f"{self._rendered(row)}\n" for row in rows), self._live(tail, prompt, width)]
        self._output.write("".join(written))
        self._output.flush()

    def close(self) -> None:
        """Whatever comes next begins a line of its own."""
        if self.is_live:
            self._output.write(self._erased(self.width))
            self._output.flush()

    def _erased(self, width: int) -> str:
        """Back to the first of the rows that change. A window that became narrower has broken them into more."""
        *others, last = self._drawn or [0]
        above = sum(1 + max(cells - 1, 0) // (width + 1) for cells in others) + last // (width + 1)
        self._drawn = []
        return _up(above) + ERASE_BELOW

    def _live(self, tail: Text | None, prompt: Prompt | None, width: int) -> str:
        rows: list[str] = []
        if tail is not None and tail.plain:
            shown = tail.copy()
            shown.truncate(width)
            rows.append(self._rendered(shown))
            self._drawn.append(shown.cell_len)
        if prompt is not None:
            rows.append(prompt.text)
            self._drawn.append(prompt.cursor)
        return "\n".join(rows) + ("" if prompt is None else f"\r{_right(prompt.cursor)}")

    def _rows(self, line: Text, width: int) -> list[Text]:
        """Wherever a line is broken, what follows cannot be taken for the beginning of another."""
        if line.cell_len <= width:
            rows = [line.copy()]
        else:
            lead = lead_of(line.plain)
            first, *others = line[len(lead) :].wrap(self._console, width - len(lead or CONTINUED_ROW))
            rows = [Text(lead, line.style) + first, *(Text(lead or CONTINUED_ROW, line.style) + row for row in others)]
        for row in rows:
            row.rstrip()
        return rows

    def _rendered(self, text: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(text, end="")
        return captured.get()


def print_lines(lines: Iterable[Text]) -> None:
    """On standard output, once."""
    screen = Screen()
    screen.show(lines)
    screen.close()


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows else ""


def _right(cells: int) -> str:
    return f"\x1b[{cells}C" if cells else ""


def window(text: str, cursor: int, width: int) -> Prompt:
    """So much of a line as fits, the cursor in it. Every character of it is one that can be shown."""
    if cell_len(text) < width:
        return Prompt(text, cell_len(text[:cursor]))
    start = 0
    while cell_len(text[start:cursor]) >= width - 1:
        start += 1
    return Prompt(set_cell_size(text[start:], width).rstrip(), cell_len(text[start:cursor]))
