"""One connection, to a client or to another host: what came and was not used yet, and how much went each way."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import cast

HOLD_BYTES = 128 * 1024
"""What is read ahead before reading stops; one more piece may have come by then."""
WRITE_HIGH = 256 * 1024
WRITE_LOW = 64 * 1024
_AT_ONCE = struct.pack("ii", 1, 0)


class Broken(ConnectionError):
    """The connection was lost, not ended."""


class Wire(asyncio.Protocol):
    """Read with `more` and `take`, or joined to another with `pour_into`."""

    transport: asyncio.Transport

    def __init__(self, *, tls: bool = False) -> None:
        self.received = 0
        self.sent = 0
        self.moved = 0.0
        """When something last came, or room for more was made, on the clock of the loop."""
        self.held = b""
        self.eof = False
        self.lost = False
        self.failure: str | None = None
        self.on_ended: Callable[[], None] | None = None
        """Called at the end of what comes, and when it is lost."""
        self._loop = asyncio.get_running_loop()
        self._tls = tls
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._paused = False
        self.full = False
        self._into: Wire | None = None
        self.feeder: Wire | None = None
        self._discarding = False
        self._ended_writing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        self.moved = self._loop.time()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.moved = self._loop.time()
        if self._into is not None:
            self._into.write(data)
            return
        if self._discarding:
            return
        self.held = self.held + data if self.held else data
        if len(self.held) > HOLD_BYTES:
            self.pause()
        self._wake()

    def eof_received(self) -> bool:
        self.eof = True
        if self._into is not None:
            self._into.end_writing()
        self._ended()
        return not self._tls

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = True
        self.failure = None if exc is None else type(exc).__name__
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
        self._ended()

    def pause_writing(self) -> None:
        self.full = True
        if self.feeder is not None:
            self.feeder.pause()

    def resume_writing(self) -> None:
        self.full = False
        self.moved = self._loop.time()
        if self.feeder is not None:
            self.feeder.resume()
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def pause(self) -> None:
        if not self._paused and not self.lost:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self.lost and not self.eof:
            self._paused = False
            self.transport.resume_reading()

    async def more(self) -> bool:
        """Waits for something beyond what is held. False when nothing more comes.

        Raises `Broken` when the connection is lost.
        """
        before = len(self.held)
        while len(self.held) == before:
            if self.eof:
                return False
            if self.lost:
                raise Broken(self.failure or "the connection was lost")
            self.resume()
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    async def take(self) -> bytes:
        """What has come, at least one byte; empty when nothing more comes. Raises `Broken`."""
        if not self.held and not await self.more():
            return b""
        return self.use(len(self.held))

    def use(self, count: int) -> bytes:
        """The first of what is held."""
        used = self.held[:count]
        self.held = self.held[count:]
        return used

    def put_back(self, data: bytes) -> None:
        if data:
            self.held = data + self.held

    def write(self, data: bytes) -> None:
        """Nothing is written to what is lost or ended."""
        if self.lost or self._ended_writing or self.transport.is_closing():
            return
        self.sent += len(data)
        self.transport.write(data)

    async def drain(self) -> None:
        """Until there is room for more, or the connection is lost."""
        while self.full and not self.lost:
            self._writer = self._loop.create_future()
            try:
                await self._writer
            finally:
                self._writer = None

    async def flush(self) -> None:
        """Until everything has gone, or the connection is lost."""
        if not self.lost:
            self.transport.set_write_buffer_limits(0)
            await self.drain()

    def end_writing(self) -> None:
        if self.lost or self._ended_writing or self.transport.is_closing():
            return
        self._ended_writing = True
        if self._tls:
            self.transport.close()
        else:
            # Its end may have gone without our having been told yet.
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    def pour_into(self, other: "Wire") -> None:
        """From now on everything that comes is written to the other, its end as well."""
        self._into, other.feeder = other, self
        if self.held:
            other.write(self.use(len(self.held)))
        if self.eof:
            other.end_writing()
        elif not other.full:
            self.resume()

    def stop_pouring(self) -> None:
        if self._into is not None:
            self._into.feeder = None
            self._into = None
            self.resume()

    def discard(self) -> None:
        """What still comes is of no interest."""
        self._discarding = True
        self.held = b""
        self.resume()

    def close(self) -> None:
        """After what was written has gone."""
        if not self.lost:
            self.transport.close()

    def abort(self) -> None:
        """What has not gone yet does not go, and does not count as sent."""
        if not self.lost:
            self.sent -= self.unsent()
            self.transport.abort()

    def reset(self) -> None:
        """So that the other end cannot take it for an ordinary end."""
        if not self.lost:
            with contextlib.suppress(OSError):
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.abort()

    def unsent(self) -> int:
        return 0 if self.lost or self.transport.is_closing() else self.transport.get_write_buffer_size()

    def _ended(self) -> None:
        self._wake()
        if self.on_ended is not None:
            self.on_ended()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
