"""What one would write without Cloche: a `websockets` server that broadcasts texts it has in memory.

It prints its port, broadcasts a file of frames for each line that it is sent, and says when it began.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve

HERE = "127.0.0.1"
MOST_WAITING = 1024 * 1024
"""Bytes for the slowest: a broadcast does not wait for anybody by itself, and would take all memory."""


def texts_in(file: Path) -> Iterator[str]:
    raw, at = file.read_bytes(), 0
    while at < len(raw):
        length = int.from_bytes(raw[at : at + 4], "big")
        yield raw[at + 4 : at + 4 + length].decode()
        at += 4 + length


async def _serve() -> None:
    connections: set[ServerConnection] = set()

    async def hold(connection: ServerConnection) -> None:
        connections.add(connection)
        await connection.wait_closed()
        connections.discard(connection)

    async with serve(hold, HERE, 0, compression=None, ping_interval=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            texts = list(texts_in(Path(line.decode().strip())))
            print(time.perf_counter(), flush=True)
            for text in texts:
                broadcast(connections, text)
                while any(each.transport.get_write_buffer_size() > MOST_WAITING for each in connections):  # noqa: ASYNC110
                    await asyncio.sleep(0)


def main() -> None:
    uvloop.run(_serve())


class Broadcaster:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.pid = process.pid
        self.port = port

    async def broadcast(self, file: Path) -> float:
        """When it began, by the clock that all processes share."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{file}\n".encode())
        return float(await self._process.stdout.readline())


@asynccontextmanager
async def broadcaster() -> AsyncIterator[Broadcaster]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"from {__name__} import main; main()", stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Broadcaster(process, int(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
