"""nats-py's client, repaired where a long-lived service would trip over it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import nats.aio.client
from nats import errors
from nats.aio.client import PING_PROTO, Srv
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport

from infra.bus.freshness import FencedTransport, Freshness

logger = logging.getLogger(__name__)

STORED = b"$JS.ACK."
"""Where a message of a stream is to be acknowledged. The server's own notices want no acknowledgement."""
STATUS = "Status"

FLUSH_TIMEOUT_S = 10.0

Tap = Callable[[bytes, bytes, bytes, bytes | None], None]
"""Called with subject, reply, data and raw headers, in the order of arrival. Must not raise or block."""


class NoTls(errors.Error):
    """The server does not speak TLS, and the password is for one that does."""


class Client(nats.aio.client.Client):
    """What differs from the library's own:

    - What is published goes out on the present connection or not at all. The library keeps unsent messages and sends
      them after a reconnect *before* anybody can repeat what was lost before them, which breaks their order.
    - A cancelled publish stays cancelled. The library swallows a cancellation while it waits for the socket.
    - `flush` comes back when the server has seen everything before it. The library's PING overtakes what waits.
    - A cancelled `flush` does no harm. In the library its late PONG ends the reading task for good.
    - An error that the server reports leads to a reconnect. The library closes for good.
    - No message ends the reading task, whatever bytes its publisher put into its subject and headers.
    - A message of a stream is a message, even if its publisher's headers say that it is a status of the server.
    - A client that was given certificates to trust tells its password to no server without TLS. The library does.
    - What waited in a process that was stopped meanwhile is not sent (see `freshness`).
    - Where TLS fails with one server, the next is tried. The library waits for ever.
    - An attempt to connect that fails is closed before the next. The library leaves it open until it is collected.
    - `tap` hands over messages without a queue, a task and parsed headers: several times faster on hot paths.
    """

    def __init__(self) -> None:
        super().__init__()
        self.freshness = Freshness()
        self._taps: dict[int, Tap] = {}

    async def _connect_to_server(self, s: Srv) -> None:
        if isinstance(self._transport, FencedTransport):
            self._transport.abort()
        self.freshness.renew()
        await super()._connect_to_server(s)
        if type(self._transport) is TcpTransport:
            self._transport = FencedTransport(self._transport, self.freshness)

    async def break_off(self) -> None:
        """Drop the connection with all that is on its way, and make a new one."""
        if self.is_connected and isinstance(self._transport, FencedTransport):
            self._transport.abort()
            await self._process_op_err(ConnectionResetError("this process was stopped for a while"))

    async def tap(self, subject: str, handler: Tap) -> int:
        subscription = await self.subscribe(subject)
        self._taps[subscription._id] = handler  # noqa: SLF001  the library has no public name for it
        return int(subscription._id)  # noqa: SLF001

    async def untap(self, number: int) -> None:
        self._taps.pop(number, None)
        if number in self._subs:
            self._remove_sub(number)
            if self.is_connected:
                await self._send_unsubscribe(number)

    def parse_headers(self, raw: bytes | None) -> dict[str, str] | None:
        return self._parse_header_lines(raw) if raw else None

    def forget_unsent(self) -> None:
        self._pending.clear()
        self._pending_data_size = 0
        for pong in self._pongs:
            if not pong.done():
                pong.set_exception(errors.ConnectionReconnectingError())
                pong.exception()
        self._pongs = []

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if not self.is_connected:
            raise errors.ConnectionReconnectingError
        await super().publish(subject, payload, reply, headers)

    async def flush(self, timeout: float = FLUSH_TIMEOUT_S) -> None:
        """The library's own waits by `wait_for`, which in Python 3.11 drops a cancellation that comes with the PONG."""
        if self.is_closed:
            raise errors.ConnectionClosedError
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._send_ping(answered)
                await answered
        except TimeoutError:
            answered.cancel()
            raise errors.FlushTimeoutError from None

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        result = await super()._flush_pending(force_flush)
        if task and task.cancelling() > before and not self.is_closed:
            raise asyncio.CancelledError
        return result

    def _connect_command(self) -> bytes:
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise NoTls
        self._know_of_tls()
        return super()._connect_command()

    def _know_of_tls(self) -> None:
        """The library's stream does not, and complains of each end of a connection."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is None or writer.get_extra_info("ssl_object") is None:
            return
        protocol = writer.transport.get_protocol()
        # None where the server has already gone.
        if protocol is not None:
            protocol._over_ssl = True  # noqa: SLF001  it has no public name

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(PING_PROTO)
        await self._flush_pending()

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
            self._pings_outstanding = 0
            return
        await super()._process_pong()

    async def _process_err(self, err_msg: str) -> None:
        if "permissions violation" in err_msg:
            await super()._process_err(err_msg)
            return
        logger.error("NATS reports %s", err_msg)
        await self._process_op_err(errors.Error(f"nats: {err_msg}"))

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            return None

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        if headers and reply.startswith(STORED):
            headers = {name: value for name, value in headers.items() if name != STATUS}
        return Msg(
            _client=self,
            subject=subject.decode("utf-8", "replace"),
            reply=reply.decode("utf-8", "replace"),
            data=data,
            headers=headers,
            _sid=sid,
        )

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        tap = self._taps.get(sid)
        if tap is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            tap(subject, reply, data, headers)
