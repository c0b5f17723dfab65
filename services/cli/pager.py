"""A pager, as git has one: `$PAGER`, else `less`, else none."""

import asyncio
import os
import shutil
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from rich.console import Console
from rich.text import Text

from services.cli.passthrough import STDOUT, write_all

LESS = "FRX"
"""Colours, and no pager at all for what fits on the screen."""


class Left(Exception):
    """Nobody reads on."""


class Output:
    """Lines, as text of a terminal where there is one."""

    def __init__(self, write: Callable[[bytes], object], *, colour: bool, pipe: asyncio.StreamWriter | None) -> None:
        self._write = write
        self._pipe = pipe
        self._console = Console(
            force_terminal=colour, no_color=not colour, highlight=False, markup=False, emoji=False, soft_wrap=True
        )

    async def lines(self, lines: list[Text]) -> None:
        """Waits while nobody reads. Raises `Left`, or `BrokenPipeError` where there is no pager."""
        if not lines:
            return
        with self._console.capture() as captured:
            for line in lines:
                self._console.print(line, soft_wrap=True)
        try:
            self._write(captured.get().encode("utf-8", "replace"))
            if self._pipe is not None:
                await self._pipe.drain()
        except (BrokenPipeError, ConnectionResetError):
            if self._pipe is None:
                raise
            raise Left from None


@asynccontextmanager
async def paged(*, wanted: bool = True) -> AsyncIterator[Output]:
    """Where stdout is a terminal, through a pager. One that is left early ends what is within, without a word."""
    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    program = pager() if wanted and terminal else None
    if program is None:
        yield Output(lambda data: write_all(STDOUT, data), colour=colour, pipe=None)
        return
    sys.stdout.flush()
    loop, before, is_ended = asyncio.get_running_loop(), termios.tcgetattr(STDOUT), asyncio.Event()
    process = await asyncio.create_subprocess_shell(
        program, stdin=asyncio.subprocess.PIPE, env={"LESS": LESS, "LV": "-c", **os.environ}
    )
    assert process.stdin is not None

    def end() -> None:
        """It would go on at the terminal without us."""
        is_ended.set()
        with suppress(ProcessLookupError):
            process.terminate()

    # Ctrl-C is the pager's: it ends a search, not the reading.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        with suppress(Left):
            yield Output(process.stdin.write, colour=colour, pipe=process.stdin)
    finally:
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.close()
            await process.stdin.wait_closed()
        await process.wait()
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
    if is_ended.is_set():
        termios.tcsetattr(STDOUT, termios.TCSANOW, before)
        raise KeyboardInterrupt


def pager() -> str | None:
    """The command line of it; None where there is none, or `cat`, which would do nothing."""
    wanted = os.environ.get("PAGER")
    if wanted is None:
        return "less" if shutil.which("less") else None
    return wanted if wanted.strip() not in ("", "cat") else None
