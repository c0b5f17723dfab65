"""Connections that nobody can use to hold our memory: whoever takes nothing is noticed, and let go of for good.

The server's own protocols wait for a client that does not read for ever, also when they close the connection.
"""

import asyncio
import fcntl
import logging
import socket
import struct
import termios
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from services.gateway.live.ending import TakesNothing
from services.gateway.live.owing import OwingHttp

WIRE = "wire"
"""In a `websocket.send`: frames that are ready to be written, as pieces."""
ENDLESS = "/events/stream"
"""How the paths of answers end that do not."""
LET_GO_S = 5.0
"""After we have closed: for what is still on its way to the client."""
MOST_FRAGMENTS = 1024
"""Of one message: empty ones cost nothing to send."""
SEND_BUFFER = 512 * 1024
"""Of the kernel, for one client."""
NOT_UTF8 = 1007
TOO_BIG = 1009

# The address, which is logged at every connection, may hold a token.
_quiet = logging.getLogger(__name__)
_quiet.setLevel(logging.WARNING)


class PatientSocket(WebSocketsSansIOProtocol):
    """Raises `TakesNothing` from `send` once; what is sent after that does not wait. `close` is then final."""

    slow_s: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.conn.logger = _quiet
        self.conn.debug = False
        self._fragments = 0
        self._abort: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        _bound(transport, self.slow_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._abort is not None:
            self._abort.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # A request that is too long is answered by the library, and by nobody else.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()

    async def send(self, message: Any) -> None:
        if not self.writable.is_set():
            await self._taken()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        wire = message.get(WIRE)
        if wire is None:
            await super().send(message)
        else:
            self.transport.writelines(wire)
        if message["type"] == "websocket.close":
            self._let_go()
        if message["type"] == "websocket.http.response.body":
            # Else the server takes a refusal for no answer at all, and logs it as an error of ours.
            self.handshake_complete = True

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._let_go()

    def shutdown(self) -> None:
        super().shutdown()
        self._let_go()

    def handle_ping(self) -> None:
        pongs = self.conn.data_to_send()
        # Whoever asks and does not read the answers is not owed any.
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))

    def handle_text(self, event: Frame) -> None:
        self._fragments = 0
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._fragments = 0
        super().handle_bytes(event)

    def handle_cont(self, event: Frame) -> None:
        self._fragments += 1
        if self._fragments > MOST_FRAGMENTS:
            self._fail(TOO_BIG, "too many fragments")
        else:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._fail(NOT_UTF8, "not UTF-8")
                return
        super().send_receive_event_to_app()

    def _fail(self, code: int, reason: str) -> None:
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    async def _taken(self) -> None:
        left = unsent(self.transport)
        while not self.writable.is_set():
            try:
                async with asyncio.timeout(self.slow_s):
                    await self.writable.wait()
            except TimeoutError:
                before, left = left, unsent(self.transport)
                if left >= before:
                    self.writable.set()
                    raise TakesNothing from None

    def _let_go(self) -> None:
        if self._abort is None and not self.disconnected:
            self._abort = self.loop.call_later(LET_GO_S, cut, self.transport)


class PatientHttp(OwingHttp):
    """A client that takes nothing of its answer is cut off; one that follows is let go of when the server ends."""

    slow_s: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _bound(transport, self.slow_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_looking()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        # None before the first request, whatever its type says.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete and self.scope["path"].endswith(ENDLESS):
            # Other answers come to an end by themselves, and are waited for.
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later(unsent(self.transport))

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_looking()

    def _look_later(self, left: int) -> None:
        self._look = self.loop.call_later(self.slow_s, self._abort_unless_taken, left)

    def _abort_unless_taken(self, left: int) -> None:
        now = unsent(self.transport)
        if now >= left:
            cut(self.transport)
        else:
            self._look_later(now)

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None


def patient_socket(slow_s: float) -> type[PatientSocket]:
    """With how long somebody may take nothing."""
    return type("PatientSocket", (PatientSocket,), {"slow_s": slow_s})


def patient_http(slow_s: float) -> type[PatientHttp]:
    return type("PatientHttp", (PatientHttp,), {"slow_s": slow_s, "owing_s": slow_s})


def unsent(transport: asyncio.WriteTransport) -> int:
    """Bytes that the client has not acknowledged, ours and the kernel's."""
    found = transport.get_extra_info("socket")
    if found is None or found.fileno() < 0:
        return transport.get_write_buffer_size()
    queued: int = struct.unpack("i", fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0]
    return transport.get_write_buffer_size() + queued


def cut(transport: asyncio.WriteTransport) -> None:
    """At once, and without the kernel holding what was not taken."""
    if (found := transport.get_extra_info("socket")) is not None and found.fileno() >= 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _bound(transport: asyncio.BaseTransport, slow_s: float) -> None:
    """A client that is simply gone never says so: the kernel gives up on it after a while."""
    found = transport.get_extra_info("socket")
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(slow_s * 2000) + 10_000)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
