"""A connection to NATS that outlives every interruption of it."""

import asyncio
import contextlib
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

from nats import errors as nats_errors
from nats.aio.subscription import Subscription

from contracts.errors import Invalid, Unavailable
from infra.bus.client import Client, NoTls, Tap
from infra.bus.errors import ApiError
from infra.bus.freshness import TICK_S
from infra.bus.replies import Replies, Reply
from infra.observing import catalogue
from infra.secrets.redaction import Redactor

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
RECONNECT_WAIT_S = 0.2
CONNECT_TIMEOUT_S = 2.0
DRAIN_TIMEOUT_S = 5.0
PING_INTERVAL_S = 10
MAX_COMPLAINTS = 50
"""Told between two connections, each once."""
MAX_PENDING_BYTES = 8 * 1024 * 1024

API = "cloche.api"
"""What every user but the admin calls the JetStream API of the account that holds the streams."""
HUB_API = "$JS.API"
NOT_READY = 503

_DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')


class Bus:
    """One user's connection. Made by `connect`; reconnects for ever until `aclose`."""

    def __init__(self, url: str, user: str, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.url = url
        """Several have commas between."""
        self._tls = tls
        self.user = user
        self.name = name
        self.service, self.realm = user, ""
        """What its figures are told as: the user without the realm that it works in."""
        self.client = Client()
        self.replies = Replies(self.client)
        self.api_prefix = HUB_API if user.rpartition("-")[2] == "admin" else API
        self.redactor = Redactor()
        """What goes to the log goes through it."""
        self.new_password: Callable[[], str] | None = None
        """Asked in a thread when the server refuses the one that we have: it may have been changed."""
        self.epoch = 0
        """Counts the connections; what was sent in an earlier epoch and not answered may be lost."""
        self._connected = asyncio.Event()
        self._lost: list[Callable[[], None]] = []
        self._complaints: set[str] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set() and self.client.is_connected

    async def wait_connected(self) -> int:
        """Returns the epoch. Raises `Unavailable` if the bus was closed."""
        while not self.is_connected:
            if self.client.is_closed:
                raise Unavailable(f"the connection of {self.name} to {self.url} is closed")
            await self._connected.wait()
            if not self.client.is_connected:
                self._connected.clear()
        return self.epoch

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        timeout: float = REQUEST_TIMEOUT_S,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Ask once and wait for one answer.

        Raises `Denied` (this user may not), `NobodyAnswers` (no responder), `Unavailable` (not connected, connection
        lost, no answer in time), `Invalid` (larger than the server takes, or not a subject).
        """
        try:
            return await self.replies.ask(subject, payload, timeout=timeout, headers=headers)
        except TimeoutError:
            raise Unavailable(f"no answer on {subject} within {timeout:g} s") from None
        except (nats_errors.MaxPayloadError, nats_errors.BadSubjectError, nats_errors.BadHeaderError) as error:
            raise Invalid(f"{subject[:200]!r}: {error}") from None
        except nats_errors.Error as error:
            raise Unavailable(f"not connected to {self.url}: {error}") from None

    async def tell(self, subject: str, payload: bytes) -> None:
        """For whoever listens; nobody answers. Raises `Unavailable` when not connected."""
        try:
            await self.client.publish(subject, payload)
        except (nats_errors.Error, OSError) as error:
            raise Unavailable(f"not connected to {self.url}: {error}") from None

    async def api(self, name: str, body: object = None, *, timeout: float = REQUEST_TIMEOUT_S) -> dict[str, Any]:
        """A request to the JetStream API with a JSON body. Raises `ApiError` and what `request` raises.

        Servers that have no leader for the moment are `Unavailable`, as those that are being started again.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        reply = await self.request(f"{self.api_prefix}.{name}", payload, timeout=timeout)
        answer: dict[str, Any] = json.loads(reply.data)
        if error := answer.get("error"):
            words, status = f"{name}: {error.get('description', error)}", error.get("code", 0)
            if status == NOT_READY:
                raise Unavailable(words)
            raise ApiError(words, number=error.get("err_code", 0), status=status)
        return answer

    async def publish(self, subject: str, payload: bytes = b"", *, headers: dict[str, str] | None = None) -> None:
        """Fire and forget: for what may be lost. Facts go through `publisher.append`. Raises `Unavailable`."""
        try:
            await self.client.publish(subject, payload, headers=headers)
        except nats_errors.Error as error:
            raise Unavailable(f"not connected to {self.url}: {error}") from None

    async def subscribe(self, subject: str, handle: Callable[[Any], Awaitable[None]]) -> Subscription:
        """Plain NATS messages, at most once. `handle` gets nats-py's `Msg`."""
        subscription = await self.client.subscribe(subject, cb=handle)
        await self.settle_subscriptions()
        return subscription

    async def tap(self, subject: str, handler: Tap) -> int:
        """See `Client.tap`. In place at the server when this returns."""
        number = await self.client.tap(subject, handler)
        await self.settle_subscriptions()
        return number

    async def settle_subscriptions(self) -> None:
        """A subscription that was lost in a disconnect is made again by the reconnect, so a failure is no loss."""
        with contextlib.suppress(nats_errors.Error, OSError):
            await self.client.flush()

    async def keep_fresh(self) -> None:
        """For ever: after a stop of this process the connection is a new one before anything is sent.

        For those who speak for a sandbox that another node may have by then.
        """
        freshness = self.client.freshness
        while True:
            freshness.tick()
            if freshness.was_stopped:
                await self.client.break_off()
            await asyncio.sleep(TICK_S)

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """`call` whenever the connection is lost. Returns the way to stop that."""
        self._lost.append(call)
        return lambda: self._lost.remove(call) if call in self._lost else None

    async def aclose(self) -> None:
        """Sends what is waiting, within a bound, and closes. May be called twice; if cancelled, it ends when closed."""
        if self.client.is_closed:
            return
        # The library swallows a cancellation while it closes, so it gets to see none.
        closing = asyncio.create_task(self._close())
        try:
            await asyncio.shield(closing)
        finally:
            await asyncio.wait([closing])

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self.client.drain()
        except (nats_errors.Error, TimeoutError, OSError):
            await self.client.close()
        self.replies.connection_lost()
        self._connected.set()

    async def open(self, password: str, patience_s: float) -> None:
        refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        others = len(self._addresses)

        async def complain(error: Exception) -> None:
            nonlocal others
            await self._on_error(error)
            why = self._refusal(error)
            # Another server may have read a newer configuration, or has the certificate that counts.
            others -= why is not None
            if why and others <= 0 and not refused.done():
                refused.set_result(why)

        connecting = asyncio.create_task(self._connect(password, complain))
        either: list[asyncio.Future[Any]] = [connecting, refused]
        try:
            await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise self._unanswered(refused)
            connecting.result()
            await self.replies.open()
            await self.client.flush()
        except BaseException:
            await self._give_up(connecting)
            raise
        self.epoch = 1
        self._connected.set()

    def _unanswered(self, refused: asyncio.Future[str]) -> Unavailable:
        why = refused.result() if refused.done() else f"no NATS server answers at {self.url}"
        return Unavailable(f"{why} ({self.client.last_error})" if self.client.last_error else why)

    async def _give_up(self, connecting: asyncio.Task[None]) -> None:
        """Else it would be tried for ever. Repeated: `wait_for` drops a cancellation that comes with its answer."""
        while not connecting.done():
            connecting.cancel()
            await asyncio.wait([connecting], timeout=RECONNECT_WAIT_S)
        await self.client.close()

    @property
    def _addresses(self) -> list[str]:
        return [each.strip() for each in self.url.split(",") if each.strip()]

    def _refusal(self, error: Exception) -> str | None:
        """Words for what trying again does not help against."""
        if _is_refusal(str(error)):
            return f"{self.url} refuses user {self.user!r}: wrong password, or not our server"
        if isinstance(error, NoTls):
            return f"{self.url} speaks no TLS, so it is not our server"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"{self.url} has a certificate that is not trusted here: name its CA by CLOCHE_CA or `[tls] ca`"
        if isinstance(error, ssl.SSLError) and "CERTIFICATE_REQUIRED" in str(error):
            return f"{self.url} asks for a certificate: name yours by CLOCHE_CERT and CLOCHE_KEY, or in `[tls]`"
        return None

    async def _connect(self, password: str, complain: Callable[[Exception], Awaitable[None]]) -> None:
        secured = {} if self._tls is None else {"tls": self._tls}
        await self.client.connect(
            self._addresses,
            name=self.name,
            user=self.user,
            password=password,
            inbox_prefix=f"_INBOX_{self.user}",
            error_cb=complain,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            connect_timeout=CONNECT_TIMEOUT_S,  # type: ignore[arg-type]  # passed to asyncio.wait_for
            reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]  # passed to asyncio.sleep
            max_reconnect_attempts=-1,
            ping_interval=PING_INTERVAL_S,
            pending_size=MAX_PENDING_BYTES,
            flush_timeout=REQUEST_TIMEOUT_S,
            drain_timeout=int(DRAIN_TIMEOUT_S),
            **secured,  # type: ignore[arg-type]
        )

    async def _on_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if denied := _DENIED.search(text):
            self.replies.denied(denied.group(2))
        if _is_refusal(text) and self.new_password is not None:
            await self._renew(self.new_password)
        # Several servers that are away each have words of their own, again and again.
        if text not in self._complaints and len(self._complaints) < MAX_COMPLAINTS:
            self._complaints.add(text)
            logger.warning("%s: %s", self.name, text)

    async def _renew(self, password: Callable[[], str]) -> None:
        with contextlib.suppress(Invalid):
            self.client.options["password"] = await asyncio.to_thread(password)

    async def _on_disconnected(self) -> None:
        self._connected.clear()
        self.client.forget_unsent()
        self.replies.connection_lost()
        for call in list(self._lost):
            call()

    async def _on_reconnected(self) -> None:
        self._complaints.clear()
        self.epoch += 1
        catalogue.reconnects.add(self.service)
        self._connected.set()

    async def _on_closed(self) -> None:
        self._connected.set()


def _is_refusal(text: str) -> bool:
    return "authorization" in text.lower()


async def connect(
    url: str,
    user: str,
    password: str,
    name: str,
    *,
    patience_s: float = CONNECT_TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
) -> Bus:
    """Connect as a user of the permission table, to any of the servers at `url`.

    Raises `Unavailable` with the address if no server takes us within `patience_s`. Later interruptions are waited
    out, at another of the servers where there are several. Given `tls`, no server without it is told the password.
    """
    bus = Bus(url, user, name, tls)
    await bus.open(password, patience_s)
    return bus


@contextlib.asynccontextmanager
async def open_bus(
    url: str,
    user: str,
    password: str,
    name: str,
    *,
    patience_s: float = CONNECT_TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Bus]:
    async with await connect(url, user, password, name, patience_s=patience_s, tls=tls) as bus:
        yield bus
