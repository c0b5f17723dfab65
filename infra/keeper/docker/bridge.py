"""The connection of one exec, joined to the descriptors that the keeper reads and writes."""

import asyncio
import os
import socket
from typing import NamedTuple

from infra.keeper.docker.frames import STDERR, STDOUT, Demultiplexer
from infra.keeper.docker.pumps import InputPump, OutputPump, end_input
from infra.keeper.launch import LaunchFailed

Early = list[tuple[int, bytes]]


class Inner(NamedTuple):
    """The command's side of its streams. The bridge owns these descriptors."""

    source: int | None
    """None = an empty stdin."""
    sinks: dict[int, int]

    def descriptors(self) -> set[int]:
        return {*self.sinks.values(), *(() if self.source is None else (self.source,))}

    def close(self) -> None:
        for fd in self.descriptors():
            os.close(fd)


def inner_pipes(stdio: tuple[int, ...], *, stdin: bool) -> Inner:
    """Copies of a command's pipe ends. Raises `LaunchFailed` when descriptors run out."""
    copies: list[int] = []
    try:
        for fd in stdio:
            copies.append(os.dup(fd))
            os.set_blocking(copies[-1], False)
    except OSError as error:
        for fd in copies:
            os.close(fd)
        raise LaunchFailed("FAILED", f"no descriptors left: {error}") from error
    source, out, err = copies
    if not stdin:
        os.close(source)
    return Inner(source if stdin else None, {STDOUT: out, STDERR: err})


class Terminal(NamedTuple):
    master: int
    """For the keeper: what it reads was shown, what it writes is typed."""
    inner: Inner


def open_terminal() -> Terminal:
    """Raises `LaunchFailed` when descriptors run out. The real terminal is the engine's; this carries its bytes."""
    try:
        outside, inside = socket.socketpair()
    except OSError as error:
        raise LaunchFailed("FAILED", f"no descriptors left: {error}") from error
    for each in (outside, inside):
        each.setblocking(False)
    fd = inside.detach()
    return Terminal(outside.detach(), Inner(fd, {STDOUT: fd}))


class Bridge:
    """Carries bytes until the engine ends the connection, which it does when the process has ended."""

    def __init__(self, sock: socket.socket, frames: Demultiplexer, inner: Inner) -> None:
        self._sock = sock
        self._inner: Inner | None = inner
        self.ended = asyncio.Event()
        self._output = OutputPump(sock, frames, inner.sinks, self._end)
        self._input: InputPump | None = None

    def begin(self, early: Early) -> None:
        inner = self._inner
        assert inner is not None
        self._output.begin(early)
        if inner.source is None:
            end_input(self._sock)
        else:
            self._input = InputPump(inner.source, self._sock)

    def close(self) -> None:
        self._end()
        self._sock.close()

    def _end(self) -> None:
        if self._inner is None:
            return
        self._output.stop()
        if self._input is not None:
            self._input.stop()
        self._inner.close()
        self._inner = None
        self.ended.set()
