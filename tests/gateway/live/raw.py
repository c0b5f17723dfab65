"""A WebSocket by hand: for what a well-behaved client never does."""

import asyncio
import base64
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from typing import NamedTuple

from tests.gateway.rig import Gateway

TEXT, BINARY, CONT, CLOSE, PING = 1, 2, 0, 8, 9


class RawFrame(NamedTuple):
    opcode: int
    data: bytes

    @property
    def code(self) -> int:
        """Of a close frame."""
        number: int = struct.unpack("!H", self.data[:2])[0]
        return number


def frame(opcode: int, data: bytes, *, fin: bool = True, masked: bool = True) -> bytes:
    """With a mask of zeros, which changes nothing."""
    head = bytes([opcode | (0x80 if fin else 0)])
    bit = 0x80 if masked else 0
    if len(data) < 126:
        head += bytes([bit | len(data)])
    elif len(data) < 1 << 16:
        head += bytes([bit | 126]) + struct.pack("!H", len(data))
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", len(data))
    return head + (b"\0\0\0\0" if masked else b"") + data


class RawSocket:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._loop = asyncio.get_running_loop()
        self._held = b""

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def frames(self) -> AsyncIterator[RawFrame]:
        """Until the connection ends, however it does."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                first, second = await self._exactly(2)
                length = second & 0x7F
                if length >= 126:
                    length = int.from_bytes(await self._exactly(2 if length == 126 else 8), "big")
                yield RawFrame(first & 0x0F, await self._exactly(length))

    async def head(self) -> bytes:
        """Of the answer to the handshake."""
        while b"\r\n\r\n" not in self._held:
            if not (more := await self._loop.sock_recv(self.socket, 1)):
                break
            self._held += more
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        return head

    async def _exactly(self, count: int) -> bytes:
        while len(self._held) < count:
            more = await self._loop.sock_recv(self.socket, 1 << 16)
            if not more:
                raise asyncio.IncompleteReadError(self._held, count)
            self._held += more
        taken, self._held = self._held[:count], self._held[count:]
        return taken


@contextlib.asynccontextmanager
async def raw_socket(
    gateway: Gateway, path: str, *, receive_buffer: int | None = None, headers: str = "", upgrade: bool = True
) -> AsyncIterator[RawSocket]:
    """After the handshake's request; `head` is its answer."""
    with socket.socket() as connected:
        if receive_buffer is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connected.setblocking(False)
        raw = RawSocket(connected)
        await asyncio.get_running_loop().sock_connect(connected, ("127.0.0.1", gateway.port))
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{gateway.port}",
            f"Authorization: Bearer {gateway.token()}",
        ]
        if upgrade:
            lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
            lines += [f"Sec-WebSocket-Key: {key}"]
        await raw.send(("\r\n".join(lines) + f"\r\n{headers}\r\n").encode("latin-1"))
        yield raw
