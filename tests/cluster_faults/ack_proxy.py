"""A way to a server on which acknowledgements of the log are lost, or told as failures."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum

STORED = b'"stream":"CLOCHE_LOG"'
REFUSAL = b'{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}'


class Mode(StrEnum):
    PASS = "pass"
    SWALLOW = "swallow"
    REFUSE = "refuse"
    """What is stored is told as not stored."""


class AckProxy:
    """What goes to the server goes through untouched: it stores everything."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self.mode = Mode.PASS
        self.struck = 0
        """Acknowledgements that did not come through."""
        self.port = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["AckProxy"]:
        async with asyncio.TaskGroup() as tasks:

            async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                tasks.create_task(self._between(reader, writer))

            listening = await asyncio.start_server(taken, "127.0.0.1", 0)
            self.port = listening.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                listening.close()

    async def _between(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
        forth = asyncio.create_task(_pump(reader, back))
        try:
            await self._answers(there, writer)
        finally:
            forth.cancel()
            for each in (writer, back):
                each.close()

    async def _answers(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while line := await server.readline():
                if not line.startswith((b"MSG ", b"HMSG ")):
                    client.write(line)
                    continue
                body = await server.readexactly(int(line.split()[-1]) + 2)
                client.write(self._judged(line, body))
                await client.drain()

    def _judged(self, line: bytes, body: bytes) -> bytes:
        if self.mode == Mode.PASS or STORED not in body or not line.startswith(b"MSG "):
            return line + body
        self.struck += 1
        if self.mode == Mode.SWALLOW:
            return b""
        head = line.rsplit(b" ", 1)[0]
        return b"%s %d\r\n%s\r\n" % (head, len(REFUSAL), REFUSAL)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
