"""Servers that nobody inside may reach, and one that is allowed: each remembers who came."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n"
"""For `/to/<authority>`."""
CAUGHT = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ncaught"


class Traps(NamedTuple):
    server: str
    """Where the allowed server is."""
    trap: str
    """An address that may be reached by the operator's word, of a host that is not allowed."""
    port: int
    abstract: str
    file: Path
    caught: list[str]
    """What reached a trap."""
    heard: list[bytes]
    """What the allowed server was told."""


def _address() -> str:
    return f"127.7.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, caught: list[str]) -> None:
        self._caught = caught

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self._caught.append(f"a datagram: {data!r}")
        self._transport.sendto(b"caught", address)


@asynccontextmanager
async def traps(directory: Path) -> AsyncIterator[Traps]:
    caught: list[str] = []
    heard: list[bytes] = []

    async def catch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caught.append(f"a connection to {writer.get_extra_info('sockname')}")
        await _answer(reader, writer, CAUGHT, heard=None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(reader, writer, ANSWER, heard)

    abstract, file = f"cloche-trap-{secrets.token_hex(8)}", directory / "trap"
    async with AsyncExitStack() as stack:
        allowed = await stack.enter_async_context(await asyncio.start_server(serve, _address(), 0))
        server, port = allowed.sockets[0].getsockname()
        trap = _address()
        for where in (trap, "127.0.0.1", "::1"):
            await stack.enter_async_context(await asyncio.start_server(catch, where, port))
        for path in (f"\0{abstract}", str(file)):
            await stack.enter_async_context(await asyncio.start_unix_server(catch, path))
        for where in (trap, "127.0.0.1"):
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: _Datagrams(caught), local_addr=(where, port)
            )
            stack.callback(transport.close)
        yield Traps(server, trap, port, abstract, file, caught, heard)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes, heard: list[bytes] | None
) -> None:
    try:
        while data := await reader.read(65_536):
            if heard is not None:
                heard.append(data)
            target = re.match(rb"GET /to/(\S+)", data)
            writer.write(REDIRECT % target[1] if target else answer)
    except ConnectionError:
        pass
    finally:
        writer.close()
