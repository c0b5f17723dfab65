"""Carries a command's bytes to and from this terminal, exactly."""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator

from contracts.commands.command import PtySize
from contracts.errors import Invalid
from contracts.events.command import Stream
from infra.client import CommandResult, Execution

STDIN, STDOUT, STDERR = 0, 1, 2
READ_SIZE = 48 * 1024
INTERRUPTED = 130
BROKEN_PIPE = 141


def terminal_size() -> PtySize:
    rows, cols = struct.unpack("HHHH", fcntl.ioctl(STDIN, termios.TIOCGWINSZ, b"\0" * 8))[:2]
    return PtySize(rows=min(rows or 24, 1000), cols=min(cols or 80, 1000))


def require_terminal() -> None:
    if not os.isatty(STDIN):
        raise Invalid("-t needs a terminal on standard input: leave it out, or use -i for a pipe")


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def show(execution: Execution) -> CommandResult:
    """Output to our own stdout and stderr until the command ends. Raises `BrokenPipeError` when nobody reads it."""
    async for chunk in execution.output():
        descriptor = STDERR if chunk.stream == Stream.STDERR else STDOUT
        await asyncio.to_thread(write_all, descriptor, chunk.data)
    if execution.result is None:
        raise Invalid(f"command {execution.id!r} has no end in the log")
    return execution.result


async def carry(execution: Execution, *, stdin: bool, terminal: bool) -> int:
    """Run it to its end here; returns the exit code to end with. Raises why it was not taken at all."""
    try:
        return await _carry(execution, stdin=stdin, terminal=terminal)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _carry(execution: Execution, *, stdin: bool, terminal: bool) -> int:
    with _raw_mode() if terminal else contextlib.nullcontext():
        async with _feeding(execution) if stdin else _nothing(), _signals(execution, terminal=terminal):
            try:
                result = await show(execution)
            except BrokenPipeError:
                await execution.cancel(reason="nobody reads its output")
                # The interpreter flushes stdout once more at its end: give it somewhere to go.
                os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
                return BROKEN_PIPE
    if result.exit_code is None and result.signal is None:
        why = result.failure.message if result.failure else result.cause
        print(f"cloche: command {result.outcome}: {why}", file=sys.stderr)
    elif result.outcome == "timed_out":
        print(f"cloche: {result.cause}", file=sys.stderr)
    return result.shell_code


@contextlib.asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


@contextlib.contextmanager
def _raw_mode() -> Iterator[None]:
    before = termios.tcgetattr(STDIN)
    tty.setraw(STDIN)
    try:
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


@contextlib.asynccontextmanager
async def _feeding(execution: Execution) -> AsyncIterator[None]:
    """Our stdin to the command's, until either ends."""
    feeding = asyncio.create_task(_feed(execution))
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def _feed(execution: Execution) -> None:
    async for data in _read_stdin():
        await execution.write(data)
    await execution.close_stdin()


async def _read_stdin() -> AsyncIterator[bytes]:
    """Chunks until end of file."""
    while True:
        await _readable()
        data = os.read(STDIN, READ_SIZE)
        if not data:
            return
        yield data


async def _readable() -> None:
    """Until a read of stdin would not block. A regular file cannot be polled, and never blocks."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        # Watched anew for each read: a watch that stays may report once more what was already read.
        loop.add_reader(STDIN, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(STDIN)


@contextlib.asynccontextmanager
async def _signals(execution: Execution, *, terminal: bool) -> AsyncIterator[None]:
    """Ctrl-C goes to the command; a second one ends it. A new window size goes to its terminal."""
    loop = asyncio.get_running_loop()
    interrupts = 0
    async with asyncio.TaskGroup() as tasks:

        def interrupt() -> None:
            nonlocal interrupts
            interrupts += 1
            if interrupts == 1:
                tasks.create_task(execution.signal(signal.SIGINT))
            else:
                tasks.create_task(execution.cancel(grace_ms=1000, reason="interrupted twice"))

        def resized() -> None:
            size = terminal_size()
            tasks.create_task(execution.resize(size.rows, size.cols))

        def terminated() -> None:
            tasks.create_task(execution.cancel(reason="the client was terminated"))

        handlers: dict[int, Callable[[], None]] = {signal.SIGINT: interrupt, signal.SIGTERM: terminated}
        if terminal:
            handlers[signal.SIGWINCH] = resized
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
