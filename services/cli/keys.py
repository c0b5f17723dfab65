"""Single keys from a terminal, while a task does something else."""

import asyncio
import os
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self


class Keys:
    """The terminal is as it was when this is left. Without one on standard input no key ever comes."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._before: list[Any] | None = None
        self._pressed: asyncio.Queue[str] = asyncio.Queue()

    def __enter__(self) -> Self:
        if os.isatty(self._input):
            self._before = termios.tcgetattr(self._input)
            tty.setcbreak(self._input, termios.TCSANOW)
            asyncio.get_running_loop().add_reader(self._input, self._read)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._before is not None:
            asyncio.get_running_loop().remove_reader(self._input)
            termios.tcsetattr(self._input, termios.TCSANOW, self._before)

    def _read(self) -> None:
        data = os.read(self._input, 64)
        for key in data.decode("ascii", "ignore") if data else "q":
            self._pressed.put_nowait(key)

    async def next(self, patience_s: float) -> str | None:
        """None when none came for so long."""
        try:
            async with asyncio.timeout(patience_s):
                return await self._pressed.get()
        except TimeoutError:
            return None
