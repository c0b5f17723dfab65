"""One line of a terminal: what stands in its cells, and how it looks."""

import unicodedata
from itertools import groupby
from typing import NamedTuple

from infra.terminal.style import DEFAULT, Style


class Span(NamedTuple):
    text: str
    """Plain characters: nothing in it moves a cursor."""
    style: Style


class Row:
    """Cells from the left; those that are missing at its end are blank.

    A wide character is followed by an empty cell. Whatever overwrites one half of it blanks the other.
    """

    __slots__ = ("styles", "text", "wide")

    def __init__(self) -> None:
        self.text: list[str] = []
        self.styles: list[Style] = []
        self.wide = False

    def put(self, x: int, text: str, style: Style) -> None:
        """Narrow characters, from column `x`."""
        count = len(text)
        self._make_room(x)
        if self.wide:
            self._split(x, x + count)
        self.text[x : x + count] = text
        self.styles[x : x + count] = [style] * count

    def put_wide(self, x: int, character: str, style: Style) -> None:
        self._make_room(x)
        self._split(x, x + 2)
        self.wide = True
        self.text[x : x + 2] = (character, "")
        self.styles[x : x + 2] = (style, style)

    def combine(self, x: int, mark: str, most: int) -> None:
        """Adds a mark to the character at column `x`, unless it has that many."""
        if x < len(self.text):
            at = x - 1 if self.text[x] == "" and x else x
            if len(self.text[at]) <= most:
                self.text[at] = unicodedata.normalize("NFC", self.text[at] + mark)

    def erase(self, x: int, end: int, style: Style) -> None:
        """Blanks from column `x` up to `end`."""
        if not self.text and style is DEFAULT:
            return
        if self.wide:
            self._split(x, end)
        if style is DEFAULT or style == DEFAULT:
            if end >= len(self.text):
                self.cut(x)
                return
        else:
            self._make_room(x)
        self.text[x:end] = " " * (end - x)
        self.styles[x:end] = [style] * (end - x)

    def insert(self, x: int, count: int, style: Style, columns: int) -> None:
        """Blanks before column `x`; what is moved beyond `columns` is lost."""
        if x >= len(self.text) and style == DEFAULT:
            return
        self._make_room(x)
        if self.wide:
            self._split(x, x)
        self.text[x:x] = " " * count
        self.styles[x:x] = [style] * count
        self.cut(columns)

    def delete(self, x: int, count: int, style: Style, columns: int) -> None:
        """Takes cells out; blanks follow from the right."""
        if self.wide:
            self._split(x, x + count)
        if style != DEFAULT:
            self._make_room(columns)
        del self.text[x : x + count]
        del self.styles[x : x + count]
        if style != DEFAULT:
            self.erase(len(self.text), columns, style)

    def cut(self, columns: int) -> None:
        if len(self.text) > columns:
            if self.wide:
                self._split(columns, columns)
            del self.text[columns:]
            del self.styles[columns:]

    def spans(self) -> list[Span]:
        """Without the blanks at its end that nobody sees."""
        end = len(self.text)
        while end and self.text[end - 1] == " " and _invisible(self.styles[end - 1]):
            end -= 1
        at = 0
        found: list[Span] = []
        for style, group in groupby(self.styles[:end]):
            count = len(list(group))
            found.append(Span("".join(self.text[at : at + count]), style))
            at += count
        return found

    def _make_room(self, x: int) -> None:
        if (missing := x - len(self.text)) > 0:
            self.text += " " * missing
            self.styles += [DEFAULT] * missing

    def _split(self, x: int, end: int) -> None:
        """Wide characters that lie across either border become blanks."""
        text = self.text
        for at in {x, end}:
            if 0 < at < len(text) and text[at] == "":
                text[at - 1 : at + 1] = "  "


def _invisible(style: Style) -> bool:
    """A blank in it looks like no character at all."""
    return style is DEFAULT or not (style.reverse or style.underline or style.strike or style.background >= 0)
