"""Bulk text need not be drawn where it will have left the screen, and what is kept above it, before anybody looks."""

import re

from pyte import modes

from infra.terminal.grid import PLAIN_SET, Grid
from infra.terminal.style import restyled

_SOFT = re.compile(r"(?:[^\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f]++|\x1b\[(?:[0-9;:]{0,64}m|[0-2]?K|\?25[hl])|\x1b\(B)*+")
"""Text, line feeds and what changes no more than one line, the style, and the cursor's sight."""
_STYLES = re.compile(r"\x1b\[([0-9;:]{0,64})m")


def soft_end(text: str, at: int = 0) -> int:
    """Up to where it holds nothing but text that only goes downwards."""
    found = _SOFT.match(text, at)
    return found.end() if found else at


def forward(grid: Grid, text: str) -> int:
    """Passes over soft text whose lines nobody can see by its end; returns where drawing has to go on."""
    if grid.margins is not None or not grid.wraps:
        return 0
    cut = _cut(text, grid.lasting)
    if cut:
        _pass_over(grid, text, cut)
    return cut


def _cut(text: str, lines: int) -> int:
    """The beginning of a line that is followed by so many line feeds; 0 where there is none."""
    at = len(text)
    for _ in range(lines):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    found = text.rfind("\r\n", 0, at)
    return 0 if found < 0 else found + 2


def _pass_over(grid: Grid, text: str, end: int) -> None:
    reset = max(text.rfind("\x1b[0m", 0, end), text.rfind("\x1b[m", 0, end), 0)
    for found in _STYLES.finditer(text, reset, end):
        grid.style = restyled(grid.style, found[1])
    if text.find("\x1b(B", 0, end) >= 0:
        grid.sets[0] = PLAIN_SET
    shown, hidden = text.rfind("\x1b[?25h", 0, end), text.rfind("\x1b[?25l", 0, end)
    if shown != hidden:
        grid.switch(modes.DECTCEM, shown > hidden)
    grid.cursor.x = 0
    grid.last = ""
