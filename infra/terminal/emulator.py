"""A terminal emulator: whatever a program writes, the lines that it would show. Bounded in memory and in time."""

import codecs
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from contracts.events.command import TerminalSize
from contracts.screens import MAX_SCROLLBACK, bounded
from infra.terminal import ansi, dumping
from infra.terminal.controls import Controls
from infra.terminal.forward import forward, soft_end
from infra.terminal.grid import Grid
from infra.terminal.parser import Parser
from infra.terminal.row import Row, Span

BACKLOG = 1024 * 1024
"""Characters that wait to be drawn until somebody looks, or more of them come."""


class Position(NamedTuple):
    x: int
    y: int
    hidden: bool


class Emulator:
    """Sizes beyond the bounds of `contracts.screens` are brought within them. Feeding never raises.

    What is fed is drawn when somebody looks: of bulk text only the end, which is all that can be seen.
    """

    def __init__(self, cols: int = 80, rows: int = 24, scrollback: int = MAX_SCROLLBACK, *, backlog: int = BACKLOG):
        size = bounded(TerminalSize(rows=rows, cols=cols))
        self._grid = Grid(size, max(0, min(scrollback, MAX_SCROLLBACK)))
        self._controls = Controls(self._grid)
        self._parser = Parser(self._grid, self._controls)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[str] = []
        self._waiting_size = 0
        self._backlog = backlog

    @classmethod
    def load(cls, dump: bytes) -> "Emulator":
        """As it was when it was dumped: what is fed from now on has the same effect. Raises `Invalid`."""
        kept = dumping.decode(dump)
        emulator = cls(kept.columns, kept.lines, kept.scrollback)
        dumping.restore(emulator._grid, kept)
        emulator._parser.partial = kept.partial
        emulator._decoder.setstate((kept.undecoded, 0))
        return emulator

    def dump(self) -> bytes:
        """All of it, in the middle of a sequence or a character too. Only for the same version of Cloche."""
        self._settle()
        undecoded, _ = self._decoder.getstate()
        return dumping.encode(self._grid, self._parser.partial, undecoded)

    def feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self._waiting.append(text)
        self._waiting_size += len(text)
        if self._waiting_size > self._backlog:
            self._draw(keep=True)

    def resize(self, cols: int, rows: int) -> None:
        self._settle()
        size = bounded(TerminalSize(rows=rows, cols=cols))
        self._grid.resize(lines=size.rows, columns=size.cols)

    @property
    def cols(self) -> int:
        return self._grid.columns

    @property
    def rows(self) -> int:
        return self._grid.lines

    @property
    def cursor(self) -> Position:
        self._settle()
        cursor = self._grid.cursor
        return Position(min(cursor.x, self.cols - 1), cursor.y, cursor.hidden)

    @property
    def title(self) -> str:
        """Printable, 200 characters at most."""
        self._settle()
        return self._grid.title

    @property
    def alternate(self) -> bool:
        self._settle()
        return self._grid.hidden is not None

    @property
    def faults(self) -> int:
        """Sequences that were passed over because of an error here."""
        return self._controls.faults

    def lines(self) -> list[str]:
        """As many as `rows`: text and SGR sequences, without blanks at the end, each ending in the default style."""
        return [ansi.render(spans) for spans in self.spans()]

    def scrollback(self, count: int = MAX_SCROLLBACK) -> list[str]:
        """The last lines above the screen, oldest first, in the same way. The main screen's, whichever is shown."""
        return [ansi.render(spans) for spans in self.scrollback_spans(count)]

    def spans(self) -> list[list[Span]]:
        """The same as `lines`, as pieces of text with their style."""
        self._settle()
        return _spans(self._grid.rows)

    def scrollback_spans(self, count: int = MAX_SCROLLBACK) -> list[list[Span]]:
        self._settle()
        above = self._grid.above
        return _spans(islice(above, max(len(above) - max(count, 0), 0), None))

    def _settle(self) -> None:
        if self._waiting:
            self._draw(keep=False)

    def _draw(self, *, keep: bool) -> None:
        """Draws all that waits; `keep` = but the end of bulk text, which may be passed over when more comes."""
        text = "".join(self._waiting)
        self._waiting.clear()
        self._waiting_size = 0
        at = self._draw_all_but_end(text)
        if keep and len(text) - at <= self._backlog // 2:
            self._waiting.append(text[at:])
            self._waiting_size = len(text) - at
        else:
            self._parser.feed(text, at)

    def _draw_all_but_end(self, text: str) -> int:
        """Returns where text begins that goes on to the end, and can be drawn later without a difference."""
        at, least = 0, 2 * self._grid.lasting
        while len(text) - at >= least:
            end = soft_end(text, at) if self._parser.between_sequences else at
            if end - at >= least:
                at += forward(self._grid, text[at:end])
            if end == len(text):
                return at
            # A shorter run of text than that is of no use, so the next is looked for beyond it.
            at = self._parser.feed(text, at, min(max(end + 1, at + least // 2), len(text)))
        return self._parser.feed(text, at)


def _spans(rows: Iterable[Row]) -> list[list[Span]]:
    return [row.spans() for row in rows]
