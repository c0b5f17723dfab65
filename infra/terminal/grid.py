"""The cells of a terminal, and what moves, writes and erases in them.

Cursor and margins are pyte's. The cells are not: lists of rows scroll, insert and erase without touching every cell,
so no sequence of a few bytes costs more than a screenful.
"""

from collections import deque
from itertools import groupby, islice
from typing import NamedTuple

from pyte import charsets, modes
from pyte.screens import Cursor, Margins, Screen

from contracts.events.command import TerminalSize
from infra.terminal.row import Row
from infra.terminal.style import DEFAULT, Style
from infra.terminal.tabs import Tabs
from infra.terminal.widths import MARK, NARROW, WIDE, all_narrow, width

MARKS = 8
"""Combining characters of one cell."""
LINE_DRAWING = "0"
PLAIN_SET = "B"
FALLBACK = "\ufffd"
FIRST_MODES = frozenset((modes.DECAWM, modes.DECTCEM))


class Saved(NamedTuple):
    """What DECSC keeps."""

    x: int = 0
    y: int = 0
    style: Style = DEFAULT
    origin: bool = False
    sets: tuple[str, str] = (PLAIN_SET, PLAIN_SET)
    shifted: int = 0


class Hidden(NamedTuple):
    """The main screen, while the alternate one is shown."""

    rows: list[Row]
    saved: Saved


class Grid(Screen):
    def __init__(self, size: TerminalSize, scrollback: int) -> None:
        self.above: deque[Row] = deque(maxlen=scrollback)
        """Lines that left the top of the main screen, oldest first."""
        super().__init__(size.cols, size.rows)

    def reset(self) -> None:
        self.rows = [Row() for _ in range(self.lines)]
        self.above.clear()
        self.hidden: Hidden | None = None
        self.saved = Saved()
        self.title = ""
        self.icon_name = ""
        self.tabs = Tabs(self.columns)
        self.last = ""
        """The character that REP repeats."""
        self.cursor = Cursor(0, 0)
        self.soft_reset()

    def soft_reset(self) -> None:
        self.margins: Margins | None = None
        self.mode = set(FIRST_MODES)
        self.cursor.hidden = False
        self.style = DEFAULT
        self.sets = [PLAIN_SET, PLAIN_SET]
        self.shifted = 0
        self.saved = Saved()

    @property
    def region(self) -> Margins:
        return self.margins or Margins(0, self.lines - 1)

    @property
    def wraps(self) -> bool:
        return modes.DECAWM in self.mode

    @property
    def blank(self) -> Style:
        """What is erased keeps the background that is set."""
        return DEFAULT if self.style.background < 0 else Style(background=self.style.background)

    def draw(self, data: str) -> None:
        """Characters that are none of a terminal's own (C0, C1, DEL)."""
        if self.sets[self.shifted] == LINE_DRAWING:
            data = data.translate(charsets.VT100_MAP)
        if all_narrow(data):
            self._draw_narrow(data)
        else:
            for cells, run in groupby(data, width):
                self._draw_run(cells, "".join(run))
        self.last = data[-1:]

    def _draw_run(self, cells: int, run: str) -> None:
        if cells == NARROW:
            self._draw_narrow(run)
        elif cells == WIDE:
            for character in run:
                self._draw_wide(character)
        elif cells == MARK:
            for mark in run:
                self._combine(mark)

    def _draw_narrow(self, text: str) -> None:
        cursor = self.cursor
        if cursor.x + len(text) <= self.columns and modes.IRM not in self.mode:
            self.rows[cursor.y].put(cursor.x, text, self.style)
            cursor.x += len(text)
        else:
            self._draw_pieces(text)

    def _draw_pieces(self, text: str) -> None:
        cursor, columns, at = self.cursor, self.columns, self._skipped(len(text))
        while at < len(text):
            if cursor.x >= columns:
                if self.wraps:
                    cursor.x = 0
                    self.index()
                else:
                    cursor.x, at = columns - 1, len(text) - 1
            piece = text[at : at + columns - cursor.x]
            row = self.rows[cursor.y]
            if modes.IRM in self.mode:
                row.insert(cursor.x, len(piece), DEFAULT, columns)
            row.put(cursor.x, piece, self.style)
            cursor.x += len(piece)
            at += len(piece)

    def _skipped(self, count: int) -> int:
        """How many of so many characters will have left the scrollback by the time that the last one is drawn."""
        beyond = count - self.columns * self.lasting
        if beyond < self.columns or self.margins is not None or not self.wraps:
            return 0
        return beyond // self.columns * self.columns

    @property
    def lasting(self) -> int:
        """After so many line feeds nothing is left of what was there, on the screen and above it."""
        kept = 0 if self.hidden is not None else self.above.maxlen or 0
        return kept + 2 * self.lines + 2

    def _draw_wide(self, character: str) -> None:
        if self.columns < WIDE:
            self._draw_narrow(FALLBACK)
            return
        cursor = self.cursor
        if cursor.x > self.columns - WIDE:
            if self.wraps:
                cursor.x = 0
                self.index()
            else:
                cursor.x = self.columns - WIDE
        row = self.rows[cursor.y]
        if modes.IRM in self.mode:
            row.insert(cursor.x, WIDE, DEFAULT, self.columns)
        row.put_wide(cursor.x, character, self.style)
        cursor.x += WIDE

    def _combine(self, mark: str) -> None:
        if self.cursor.x:
            self.rows[self.cursor.y].combine(min(self.cursor.x, self.columns) - 1, mark, MARKS)

    def repeat(self, count: int) -> None:
        """A line of it at most: a few bytes must not cost a screenful."""
        if self.last:
            self.draw(self.last * min(count, self.columns))

    def new_line(self) -> None:
        """A carriage return and a line feed."""
        self.cursor.x = 0
        self.last = ""
        self.index()

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom:
            self._scroll_one(top, bottom)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        top, bottom = self.region
        if self.cursor.y == top:
            self._scroll_down(top, bottom, 1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def linefeed(self) -> None:
        self.index()
        if modes.LNM in self.mode:
            self.cursor.x = 0

    def scroll_up(self, count: int) -> None:
        top, bottom = self.region
        for _ in range(min(count, bottom - top + 1)):
            self._scroll_one(top, bottom)

    def scroll_down(self, count: int) -> None:
        self._scroll_down(*self.region, count)

    def _scroll_one(self, top: int, bottom: int) -> None:
        gone = self.rows.pop(top)
        self.rows.insert(bottom, self._blank_row())
        if top == 0 and self.hidden is None:
            self.above.append(gone)

    def _scroll_down(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        self.rows[top : bottom + 1] = [*self._blank_rows(count), *self.rows[top : bottom + 1 - count]]

    def _blank_row(self) -> Row:
        row = Row()
        if self.style.background >= 0:
            row.erase(0, self.columns, self.blank)
        return row

    def _blank_rows(self, count: int) -> list[Row]:
        return [self._blank_row() for _ in range(count)]

    def insert_lines(self, count: int | None = None) -> None:
        top, bottom = self.region
        if top <= self.cursor.y <= bottom:
            self._scroll_down(self.cursor.y, bottom, count or 1)
            self.cursor.x = 0

    def delete_lines(self, count: int | None = None) -> None:
        top, bottom = self.region
        if top <= self.cursor.y <= bottom:
            gone = min(count or 1, bottom - self.cursor.y + 1)
            kept = self.rows[self.cursor.y + gone : bottom + 1]
            self.rows[self.cursor.y : bottom + 1] = [*kept, *self._blank_rows(gone)]
            self.cursor.x = 0

    def insert_characters(self, count: int | None = None) -> None:
        x = min(self.cursor.x, self.columns - 1)
        self.rows[self.cursor.y].insert(x, min(count or 1, self.columns - x), self.blank, self.columns)

    def delete_characters(self, count: int | None = None) -> None:
        x = min(self.cursor.x, self.columns - 1)
        self.rows[self.cursor.y].delete(x, min(count or 1, self.columns - x), self.blank, self.columns)

    def erase_characters(self, count: int | None = None) -> None:
        x = min(self.cursor.x, self.columns - 1)
        self.rows[self.cursor.y].erase(x, min(x + (count or 1), self.columns), self.blank)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:  # noqa: ARG002  as pyte has it
        x = min(self.cursor.x, self.columns - 1)
        borders = {0: (x, self.columns), 1: (0, x + 1), 2: (0, self.columns)}
        if how in borders:
            self.rows[self.cursor.y].erase(*borders[how], self.blank)

    def erase_in_display(self, how: int = 0, *_: object, **__: object) -> None:
        borders = {0: (self.cursor.y + 1, self.lines), 1: (0, self.cursor.y), 2: (0, self.lines)}
        if how in borders:
            for row in self.rows[slice(*borders[how])]:
                row.erase(0, self.columns, self.blank)
        if how in (0, 1):
            self.erase_in_line(how)
        if how == 3 and self.hidden is None:
            self.above.clear()

    def cursor_up(self, count: int | None = None) -> None:
        limit = self.region.top if self.cursor.y >= self.region.top else 0
        self.cursor.y = max(self.cursor.y - (count or 1), limit)

    def cursor_down(self, count: int | None = None) -> None:
        limit = self.region.bottom if self.cursor.y <= self.region.bottom else self.lines - 1
        self.cursor.y = min(self.cursor.y + (count or 1), limit)

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        self.cursor_to_line(line)
        self.cursor_to_column(column)

    def cursor_to_line(self, line: int | None = None) -> None:
        above = self.region.top if modes.DECOM in self.mode else 0
        self.cursor.y = (line or 1) - 1 + above
        self.ensure_vbounds()

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        first, last = max(top or 1, 1) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last or self.lines == 1:
            self.margins = None if (first, last) == (0, self.lines - 1) or self.lines == 1 else Margins(first, last)
            self.cursor_position()

    def tab(self) -> None:
        self.cursor.x = self.tabs.after(self.cursor.x, self.columns)

    def back_tab(self, count: int) -> None:
        for _ in range(min(count, self.columns)):
            self.cursor.x = self.tabs.before(self.cursor.x)

    def set_tab_stop(self) -> None:
        self.tabs.add(self.cursor.x)

    def clear_tab_stop(self, how: int = 0) -> None:
        if how == 0:
            self.tabs.discard(self.cursor.x)
        elif how == 3:
            self.tabs.clear()

    def save_cursor(self) -> None:
        origin = modes.DECOM in self.mode
        self.saved = Saved(self.cursor.x, self.cursor.y, self.style, origin, (self.sets[0], self.sets[1]), self.shifted)

    def restore_cursor(self) -> None:
        self.style = self.saved.style
        self.sets = list(self.saved.sets)
        self.shifted = self.saved.shifted
        self._switch(modes.DECOM, self.saved.origin)
        self.cursor.x = min(self.saved.x, self.columns)
        self.cursor.y = self.saved.y
        self.ensure_vbounds()

    def switch(self, mode: int, on: bool) -> None:
        """A mode by its number in pyte. Others than these change nothing, and are not remembered."""
        if mode in (modes.IRM, modes.LNM, modes.DECAWM):
            self._switch(mode, on)
        elif mode == modes.DECOM:
            self._switch(mode, on)
            self.cursor_position()
        elif mode == modes.DECTCEM:
            self._switch(mode, on)
            self.cursor.hidden = not on

    def _switch(self, mode: int, on: bool) -> None:
        (self.mode.add if on else self.mode.discard)(mode)

    def show_alternate(self) -> None:
        if self.hidden is None:
            self.hidden = Hidden(self.rows, self.saved)
            self.saved = Saved()
            self.rows = self._blank_rows(self.lines)

    def show_main(self) -> None:
        if self.hidden is not None:
            self.rows, self.saved = self.hidden
            self.hidden = None

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Lines below the cursor go first, then those at the top, which the main screen keeps above it."""
        new = TerminalSize(rows=lines or self.lines, cols=columns or self.columns)
        if (new.rows, new.cols) == (self.lines, self.columns):
            return
        moved = self._fit(self.rows, self.cursor.y, new, keep=self.hidden is None)
        if self.hidden is not None:
            self._fit(self.hidden.rows, self.hidden.saved.y, new, keep=True)
        self.tabs.widen(self.columns, new.cols)
        self.lines, self.columns = new.rows, new.cols
        self.margins = None
        self.cursor.y = min(max(self.cursor.y - moved, 0), self.lines - 1)
        self.cursor.x = min(self.cursor.x, self.columns - 1)

    def _fit(self, rows: list[Row], y: int, size: TerminalSize, *, keep: bool) -> int:
        """Returns how many lines left at the top."""
        del rows[max(size.rows, min(y, len(rows) - 1) + 1) :]
        moved = max(len(rows) - size.rows, 0)
        if keep:
            self.above.extend(islice(rows, moved))
        del rows[:moved]
        rows.extend(Row() for _ in range(size.rows - len(rows)))
        for row in rows:
            row.cut(size.cols)
        return moved
