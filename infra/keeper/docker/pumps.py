"""Bytes between an engine's connection and the pipes of a command, without ever blocking or piling up."""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable

from infra.keeper.docker.frames import Demultiplexer

READ_BYTES = 256 * 1024
INPUT_BYTES = 64 * 1024


class OutputPump:
    """From the connection into descriptors, one per stream; these must not block.

    While one of them is full nothing is read: at most one read is in memory, and the engine feels the pressure.
    """

    def __init__(
        self, sock: socket.socket, frames: Demultiplexer, sinks: dict[int, int], on_end: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._frames = frames
        self._sinks = sinks
        self._on_end = on_end
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._unwritten: deque[tuple[int, bytes]] = deque()
        self._stalled: int | None = None

    def begin(self, early: list[tuple[int, bytes]]) -> None:
        """Reads from now on. `early` was read before, and goes first."""
        self._loop.add_reader(self._sock.fileno(), self._on_readable)
        for stream, data in early:
            self._put(stream, memoryview(data))
        self._adjust()

    def stop(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        if self._stalled is not None:
            self._loop.remove_writer(self._stalled)
            self._stalled = None

    def _on_readable(self) -> None:
        try:
            size = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self.stop()
            self._on_end()
            return
        for stream, data in self._frames.feed(self._buffer[:size]):
            self._put(stream, data)
        self._adjust()

    def _put(self, stream: int, data: memoryview) -> None:
        fd = self._sinks.get(stream)
        if fd is None:
            return
        written = 0 if self._unwritten else self._write(fd, data)
        if written < len(data):
            self._unwritten.append((fd, bytes(data[written:])))

    def _write(self, fd: int, data: memoryview | bytes) -> int:
        try:
            return os.write(fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # nobody reads it any more

    def _on_writable(self) -> None:
        while self._unwritten:
            fd, data = self._unwritten.popleft()
            written = self._write(fd, data)
            if written < len(data):
                self._unwritten.appendleft((fd, data[written:]))
                break
        self._adjust()

    def _adjust(self) -> None:
        """Waits for room where something is unwritten, for bytes where nothing is."""
        wanted = self._unwritten[0][0] if self._unwritten else None
        if wanted == self._stalled:
            return
        if self._stalled is None:
            self._loop.remove_reader(self._sock.fileno())
        else:
            self._loop.remove_writer(self._stalled)
        self._stalled = wanted
        if wanted is None:
            self._loop.add_reader(self._sock.fileno(), self._on_readable)
        else:
            self._loop.add_writer(wanted, self._on_writable)


class InputPump:
    """From a descriptor into the connection, whose sending side it closes at the end: the command's end of input."""

    def __init__(self, source: int, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._sock = sock
        self._unsent = b""
        self._loop.add_reader(source, self._on_readable)

    def stop(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sock.fileno())

    def _on_readable(self) -> None:
        try:
            self._unsent = os.read(self._source, INPUT_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""
        if self._unsent:
            self._send()
        else:
            self.stop()
            end_input(self._sock)

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.stop()  # the end of the other direction says what happened
            return
        if self._unsent:
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sock.fileno(), self._send)
        else:
            self._loop.remove_writer(self._sock.fileno())
            self._loop.add_reader(self._source, self._on_readable)


def end_input(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
