"""What is written somewhere, handed on to whoever reads it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from infra.export.sink import Sink

WAITING_BYTES = 4 << 20
"""Of what was made and not taken yet, about."""


class Outlet(Sink):
    """Hands on what is written to whoever reads, and lets the writer wait for them."""

    def __init__(self) -> None:
        self.bytes = 0
        self._made: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._held = 0
        self._room = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.bytes += len(data)
        self._held += len(data)
        self._made.put_nowait(data)
        while self._held > WAITING_BYTES:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """There is nothing to be gathered."""

    def close(self) -> None:
        self._made.put_nowait(None)

    async def pieces(self) -> AsyncIterator[bytes]:
        while (data := await self._made.get()) is not None:
            self._held -= len(data)
            self._room.set()
            yield data


async def written(write: Callable[[Sink], Awaitable[object]]) -> AsyncIterator[bytes]:
    """What somebody writes, as it comes. Raises what they raise; ends them when nobody reads any more."""
    outlet = Outlet()

    async def work() -> None:
        try:
            await write(outlet)
        finally:
            outlet.close()

    writing = asyncio.create_task(work())
    try:
        async for piece in outlet.pieces():
            yield piece
        await writing
    finally:
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([writing])
