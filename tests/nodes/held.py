"""A way to a server on which what a client sends can be held back, and delivered after the client is gone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class HoldingProxy:
    """Each connection has its own to the server, which stays when the client goes away."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._passing = asyncio.Event()
        self._passing.set()
        self.held = b""
        """What clients have sent and the server has not got."""
        self.answered = b""
        """What the server has said to anybody since it was held back."""
        self.port = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["HoldingProxy"]:
        pumps: set[asyncio.Task[None]] = set()
        writers: list[asyncio.StreamWriter] = []

        async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(*self._server)
            writers.extend((writer, back))
            pumps.add(asyncio.create_task(self._forth(reader, back)))
            pumps.add(asyncio.create_task(self._back(there, writer)))

        listening = await asyncio.start_server(taken, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listening.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for each in writers:
                each.close()

    def hold(self) -> None:
        self._passing.clear()
        self.answered = b""

    def release(self) -> None:
        self._passing.set()

    async def _forth(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """What a client that is gone has left behind is delivered once it may pass."""
        left = b""
        with contextlib.suppress(OSError):
            while data := await client.read(1 << 16):
                if self._passing.is_set():
                    server.write(data)
                else:
                    left += data
                    self.held += data
        await self._passing.wait()
        server.write(left)

    async def _back(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await server.read(1 << 16):
            self.answered += data
            with contextlib.suppress(OSError):
                client.write(data)
