"""Lines from whoever sits there, while a task does something else: typed at a terminal, or read from a pipe."""

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from services.cli.line_editor import MOST, Leave, LineEditor

PASTES_ON, PASTES_OFF = "\x1b[?2004h", "\x1b[?2004l"


class Input(Protocol):
    async def next(self) -> str | Leave:
        """The next line; at the end `Leave`, again and again."""
        ...


class TypedLines:
    """Reads a terminal key by key. It is as it was when this is left."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """`on_change` is called whenever the line, or the window, looks different."""
        self.editor = LineEditor()
        self._on_change = on_change
        self._input = sys.stdin.fileno()
        self._before: list[Any] = []
        self._lines: asyncio.Queue[str | Leave] = asyncio.Queue()

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._input)
        tty.setcbreak(self._input, termios.TCSANOW)
        now = termios.tcgetattr(self._input)
        # Ctrl-C, Ctrl-V and their like are keys here; Enter is what it is.
        now[3] &= ~(termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(self._input, termios.TCSANOW, now)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._input, self._read)
        loop.add_signal_handler(signal.SIGWINCH, self._on_change)
        sys.stdout.write(PASTES_ON)
        sys.stdout.flush()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_reader(self._input)
        sys.stdout.write(PASTES_OFF)
        sys.stdout.flush()
        termios.tcsetattr(self._input, termios.TCSANOW, self._before)

    async def next(self) -> str | Leave:
        return await self._lines.get()

    def _read(self) -> None:
        try:
            data = os.read(self._input, 65_536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._input)
            self._lines.put_nowait(Leave.INTERRUPT)
            return
        for each in self.editor.feed(data):
            self._lines.put_nowait(each)
        self._on_change()


class PipedLines:
    """Reads standard input, whatever it is."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | Leave] = asyncio.Queue()
        self._room = threading.Semaphore(1000)
        """Whoever writes faster than an agent listens has to wait."""

    def __enter__(self) -> Self:
        # Nobody can end a read of standard input, so nobody waits for this thread either.
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        return

    async def next(self) -> str | Leave:
        found = await self._lines.get()
        self._room.release()
        if isinstance(found, Leave):
            self._lines.put_nowait(found)
        return found

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        while line := sys.stdin.buffer.readline(MOST):
            self._room.acquire()
            if not self._put(loop, line.decode("utf-8", "replace").rstrip("\r\n")):
                return
        self._put(loop, Leave.END)

    def _put(self, loop: asyncio.AbstractEventLoop, line: str | Leave) -> bool:
        try:
            loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:
            return False
        return True
