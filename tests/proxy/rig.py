"""A proxy on a port of its own, servers for it to reach, and clients that say exactly what a test tells them to."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from infra.proxy import Limits, Proxy
from tests.proxy.gate import FakeGate

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of an answer with a length."""
        head = await self.head()
        status = int(head.split(b" ")[1])
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        return status, await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        return await self.reader.read()

    def close(self) -> None:
        self.writer.transport.abort()

    def vanish(self) -> None:
        """As one that is killed with something unread: the other end sees a reset."""
        at_once = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.close()


class Rig:
    def __init__(self, proxy: Proxy, gate: FakeGate, port: int) -> None:
        self.proxy = proxy
        self.gate = gate
        self.port = port

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.transport.abort()

    async def said(self, raw: bytes) -> bytes:
        """All that is answered to it until the proxy closes; our side is left open."""
        async with self.client() as client:
            await client.say(raw)
            return await client.rest()

    @asynccontextmanager
    async def tunnel(self, port: int, host: str = "origin.test") -> AsyncIterator[Client]:
        async with self.client() as client:
            await client.say(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head = await client.head()
            assert head.startswith(b"HTTP/1.1 200 "), head
            yield client


def listener() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening


@asynccontextmanager
async def proxying(
    limits: Limits | None = None, hosts: Mapping[str, tuple[str, ...]] | None = None
) -> AsyncIterator[Rig]:
    gate = FakeGate(hosts)
    listening = listener()
    port = listening.getsockname()[1]
    async with Proxy(gate, limits) as proxy:
        await proxy.serve(listening)
        yield Rig(proxy, gate, port)
    for passage in gate.passages:
        assert passage.over.done(), f"{passage.wanted} was never ended"


@asynccontextmanager
async def origin(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that speaks as the handler does."""
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()
        serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)


def answering(*answers: bytes, heads: list[bytes] | None = None) -> Handler:
    """To each request without a body one of the answers, in turn, on one connection."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            head = await reader.readuntil(b"\r\n\r\n")
            if heads is not None:
                heads.append(head)
            writer.write(answer)
            await writer.drain()

    return handle


def ok(body: bytes = b"hello") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def get(port: int, path: str = "/", *further: str, host: str = "origin.test") -> bytes:
    lines = [f"GET http://{host}:{port}{path} HTTP/1.1", f"Host: {host}:{port}", *further]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"
