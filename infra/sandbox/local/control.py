"""Speaking to a sandbox's init over its socket."""

import asyncio
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from contracts.errors import Unavailable
from infra.sandbox.local.layout import SOCKET_NAME
from infra.unix_socket import short_address

MAX_FRAME = 4 << 20


class InitConnection:
    """One connection to an init. Every failure is `Unavailable`: nobody is there, or it does not answer in time."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self._socket = connection
        self._timeout = timeout

    @classmethod
    async def open(cls, control: Path, timeout: float) -> Self:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        try:
            async with asyncio.timeout(timeout):
                await _connect(connection, control)
        except (OSError, TimeoutError) as error:
            connection.close()
            raise Unavailable(f"no init answers in {control}: {str(error) or 'timed out'}") from error
        return cls(connection, timeout)

    @property
    def peer_pid(self) -> int:
        """The host pid of the process that listens, from the kernel."""
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    async def ask(self, **request: object) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        body = msgspec.json.encode(request)
        try:
            async with asyncio.timeout(self._timeout):
                await loop.sock_sendall(self._socket, struct.pack(">I", len(body)) + body)
                (size,) = struct.unpack(">I", await self._read(4))
                answer = msgspec.json.decode(await self._read(min(size, MAX_FRAME)), type=dict[str, Any])
        except (OSError, TimeoutError, msgspec.MsgspecError) as error:
            raise Unavailable(f"init does not answer: {str(error) or 'timed out'}") from error
        if not answer.get("ok"):
            raise Unavailable(f"init refused {request.get('op')}: {answer.get('error', 'no reason given')}")
        return answer

    async def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = await asyncio.get_running_loop().sock_recv(self._socket, size - len(data))
            if not part:
                raise ConnectionResetError("the connection was closed")
            data += part
        return bytes(data)

    async def aclose(self) -> None:
        self._socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _connect(connection: socket.socket, control: Path) -> None:
    with short_address(control / SOCKET_NAME) as address:
        await asyncio.get_running_loop().sock_connect(connection, address)


def bind_control_socket(control: Path) -> socket.socket:
    """A fresh socket in place of the old one, bound and not yet listening: init does that, so that it is the peer."""
    fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        (control / SOCKET_NAME).unlink(missing_ok=True)
        with short_address(control / SOCKET_NAME) as address:
            fresh.bind(address)
        (control / SOCKET_NAME).chmod(0o600)
    except BaseException:
        fresh.close()
        raise
    return fresh
