"""The person's terminal while something is played in it. It is as it was when this is left, whatever happened."""

import asyncio
import contextlib
import os
import signal
import struct
import sys
import termios
import tty
from fcntl import ioctl
from types import TracebackType
from typing import Self

from services.cli.passthrough import write_all
from services.cli.player_keys import KeyReader, Pressed
from services.cli.player_window import Size

STDIN, STDOUT = 0, 1
ENTER = b"\x1b[?1049h\x1b[?7l\x1b[0m\x1b[2J\x1b[H\x1b[?25l"
"""The alternate screen, without wrapping: a line that fills it must not move the others."""
LEAVE = b"\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1049l"
DISABLED = b"\0"


class PlayerTerminal:
    """Draws rows that have changed, and hears keys. `keys=False` leaves standard input alone."""

    def __init__(self, *, keys: bool) -> None:
        self._reads = keys
        self._reader = KeyReader()
        self._pressed: list[Pressed] = []
        self._drawn: list[str] = []
        self._cursor = ""
        self.size = Size(24, 80)
        self.news = asyncio.Event()
        """A key, or another size."""

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as restored:
            loop.add_signal_handler(signal.SIGWINCH, self._resized)
            restored.callback(loop.remove_signal_handler, signal.SIGWINCH)
            if self._reads:
                restored.callback(termios.tcsetattr, STDIN, termios.TCSANOW, termios.tcgetattr(STDIN))
                tty.setcbreak(STDIN, termios.TCSANOW)
                self._ignore_suspend()
                loop.add_reader(STDIN, self._read)
                restored.callback(loop.remove_reader, STDIN)
            restored.callback(write_all, STDOUT, LEAVE)
            write_all(STDOUT, ENTER)
            self._resized()
            self._restored = restored.pop_all()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._restored.close()

    def take_keys(self) -> list[Pressed]:
        pressed, self._pressed = self._pressed, []
        self.news.clear()
        return pressed

    def draw(self, rows: list[str], cursor: tuple[int, int] | None) -> None:
        """All rows of the terminal, as text and SGR sequences; the cursor's place in them as x and y, if it is seen."""
        pieces = []
        for number, row in enumerate(rows[: self.size.rows]):
            if number >= len(self._drawn) or self._drawn[number] != row:
                pieces.append(f"\x1b[{number + 1};1H\x1b[0m\x1b[2K{row}\x1b[0m")
        shown = "\x1b[?25l" if cursor is None else f"\x1b[{cursor[1] + 1};{cursor[0] + 1}H\x1b[?25h"
        if pieces or shown != self._cursor:
            text = "".join(["\x1b[?25l", *pieces, shown])
            write_all(STDOUT, text.encode("utf-8", "replace"))
        self._drawn, self._cursor = list(rows), shown

    def _ignore_suspend(self) -> None:
        """Suspended, it would leave the shell on the wrong screen."""
        attributes = termios.tcgetattr(STDIN)
        attributes[6][termios.VSUSP] = DISABLED
        termios.tcsetattr(STDIN, termios.TCSANOW, attributes)

    def _read(self) -> None:
        data = os.read(STDIN, 1024)
        # The end of the input is somebody who has gone.
        self._pressed += self._reader.feed(data or b"q")
        self.news.set()

    def _resized(self) -> None:
        try:
            rows, cols = struct.unpack("4H", ioctl(STDOUT, termios.TIOCGWINSZ, b"\0" * 8))[:2]
        except OSError:
            rows, cols = 0, 0
        self.size = Size(min(rows or 24, 1000), min(cols or 80, 1000))
        self._drawn, self._cursor = [], ""
        write_all(STDOUT, b"\x1b[0m\x1b[2J")
        self.news.set()


def is_terminal() -> bool:
    return sys.stdout.isatty()


def has_keys() -> bool:
    """Whether anybody can press one."""
    return os.isatty(STDIN)
