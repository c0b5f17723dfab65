"""A server to fetch from, and our proxy before it, each in a process of its own.

It prints its ports and serves until its standard input ends.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import uvloop
from msgspec import Struct

from infra.proxy import Limits, Proxy, Wanted

HERE = "127.0.0.1"
ORIGIN = "127.7.0.1"
"""Of its own, for the node of a benchmark lets its sandboxes reach nothing else that is local."""
SMALL = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n" + b"x" * 100
PIECE = bytes(256 * 1024)
LARGE_PATH = b"GET /large/"


class Served(Struct, frozen=True, kw_only=True):
    pid: int
    ports: tuple[int, ...]


class _Web(asyncio.Protocol):
    """`/large/<bytes>` is so long; every other path is small."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        while (end := self._head.find(b"\r\n\r\n")) >= 0:
            head, self._head = self._head[:end], self._head[end + 4 :]
            if head.startswith(LARGE_PATH):
                self._left = int(head[len(LARGE_PATH) :].split(b" ")[0])
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self._left)
                self._pour()
            else:
                self.transport.write(SMALL)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._pour()

    def _pour(self) -> None:
        while self._left and not self._full and not self.transport.is_closing():
            piece = PIECE[: self._left]
            self._left -= len(piece)
            self.transport.write(piece)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def data_received(self, data: bytes) -> None:
        self._write(data)


class _Open:
    """Everything may pass, to where it asks for: what is measured is the proxy and no policy."""

    addresses = (ORIGIN,)

    async def ask(self, wanted: Wanted) -> "_Open":  # noqa: ARG002
        return self

    def refused(self, wanted: Wanted | None, reason: str, raw: str = "") -> None:
        raise AssertionError(f"{wanted} {raw} was refused: {reason}")

    def connected(self, address: str) -> None: ...

    def end(self, *, status: int | None, sent: int, received: int, error: str | None) -> None: ...

    def deny(self, reason: str) -> None: ...

    def on_cut(self, cut: Callable[[str], None]) -> None: ...


def listener() -> socket.socket:
    return socket.create_server((HERE, 0), backlog=1024)


async def _until_left() -> None:
    """By whoever started it, also where that was killed."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


async def _origin() -> None:
    loop = asyncio.get_running_loop()
    web = await loop.create_server(_Web, ORIGIN, 0, backlog=1024)
    echo = await loop.create_server(_Echo, ORIGIN, 0, backlog=1024)
    print(web.sockets[0].getsockname()[1], echo.sockets[0].getsockname()[1], flush=True)
    async with web, echo:
        await _until_left()


async def _proxy() -> None:
    listening = listener()
    async with Proxy(_Open(), Limits(requests_per_s=1e9, burst=1_000_000_000)) as proxy:
        await proxy.serve(listening)
        print(listening.getsockname()[1], flush=True)
        await _until_left()


def main(what: str) -> None:
    uvloop.run({"origin": _origin, "proxy": _proxy}[what]())


@asynccontextmanager
async def served(what: str) -> AsyncIterator[Served]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from {__name__} import main; main({what!r})",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        ports = (await process.stdout.readline()).split()
        yield Served(pid=process.pid, ports=tuple(map(int, ports)))
    finally:
        process.stdin.close()
        await process.wait()
