"""A terminal as bytes, and back."""

import zlib
from collections.abc import Iterable
from itertools import groupby

import msgspec
from msgspec import Struct
from pyte.screens import Margins

from contracts.errors import Invalid
from infra.terminal.grid import Grid, Hidden, Saved
from infra.terminal.parser import Partial
from infra.terminal.row import Row
from infra.terminal.style import Style
from infra.terminal.tabs import Tabs

VERSION = 1
LARGEST = 256 * 1024 * 1024
"""Bytes, unpacked: more than the largest terminal takes."""

Run = tuple[int, int]
"""How many cells have which of the styles."""


class KeptRow(Struct, array_like=True):
    text: str | list[str]
    """Cells; a string where each of them is one character."""
    runs: list[Run]
    wide: bool = False


class Kept(Struct, array_like=True):
    version: int
    columns: int
    lines: int
    scrollback: int
    styles: list[Style]
    rows: list[KeptRow]
    hidden: list[KeptRow] | None
    above: list[KeptRow]
    cursor: tuple[int, int, bool]
    style: Style
    saved: Saved
    hidden_saved: Saved
    margins: tuple[int, int] | None
    modes: list[int]
    tabs: list[int]
    sets: list[str]
    shifted: int
    title: str
    last: str
    partial: Partial
    undecoded: bytes


def encode(grid: Grid, partial: Partial, undecoded: bytes) -> bytes:
    styles: dict[Style, int] = {}
    hidden = grid.hidden
    kept = Kept(
        version=VERSION,
        columns=grid.columns,
        lines=grid.lines,
        scrollback=grid.above.maxlen or 0,
        rows=_kept(grid.rows, styles),
        hidden=None if hidden is None else _kept(hidden.rows, styles),
        above=_kept(grid.above, styles),
        styles=list(styles),
        cursor=(grid.cursor.x, grid.cursor.y, grid.cursor.hidden),
        style=grid.style,
        saved=grid.saved,
        hidden_saved=Saved() if hidden is None else hidden.saved,
        margins=None if grid.margins is None else (grid.margins.top, grid.margins.bottom),
        modes=sorted(grid.mode),
        tabs=grid.tabs.stops,
        sets=grid.sets,
        shifted=grid.shifted,
        title=grid.title,
        last=grid.last,
        partial=partial,
        undecoded=undecoded,
    )
    return zlib.compress(msgspec.msgpack.encode(kept), 1)


def decode(dump: bytes) -> Kept:
    """Raises `Invalid` for what is damaged, or of another version."""
    try:
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(dump, LARGEST)
        kept = msgspec.msgpack.decode(raw, type=Kept)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise Invalid(f"not a screen: {error}") from error
    if kept.version != VERSION or not unpacking.eof:
        raise Invalid("not a screen of this version")
    return kept


def restore(grid: Grid, kept: Kept) -> None:
    """Into a grid of the same size. Raises `Invalid`."""
    if (kept.lines, kept.columns) != (grid.lines, grid.columns) or len(kept.rows) != grid.lines:
        raise Invalid("not a screen: its size is not that of its lines")
    grid.rows = _rows(kept.rows, kept.styles)
    if kept.hidden is not None:
        grid.hidden = Hidden(_rows(kept.hidden, kept.styles), kept.hidden_saved)
    grid.above.extend(_rows(kept.above, kept.styles))
    grid.cursor.x, grid.cursor.y, grid.cursor.hidden = kept.cursor
    grid.style = kept.style
    grid.saved = kept.saved
    grid.margins = None if kept.margins is None else Margins(*kept.margins)
    grid.mode = set(kept.modes)
    grid.tabs = Tabs(grid.columns, kept.tabs)
    grid.sets = kept.sets
    grid.shifted = kept.shifted
    grid.title = kept.title
    grid.last = kept.last


def _kept(rows: Iterable[Row], styles: dict[Style, int]) -> list[KeptRow]:
    return [KeptRow(_cells(row), _runs(row, styles), row.wide) for row in rows]


def _cells(row: Row) -> str | list[str]:
    joined = "".join(row.text)
    return joined if not row.wide and len(joined) == len(row.text) else row.text


def _runs(row: Row, styles: dict[Style, int]) -> list[Run]:
    return [(len(list(group)), styles.setdefault(style, len(styles))) for style, group in groupby(row.styles)]


def _rows(kept: list[KeptRow], styles: list[Style]) -> list[Row]:
    rows: list[Row] = []
    for each in kept:
        row = Row()
        row.text = list(each.text)
        row.wide = each.wide
        try:
            for count, style in each.runs:
                row.styles += [styles[style]] * count
        except IndexError as error:
            raise Invalid("not a screen: a style is missing") from error
        if len(row.text) != len(row.styles):
            raise Invalid("not a screen: a line has cells without a style")
        rows.append(row)
    return rows
