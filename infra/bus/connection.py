"""A connection to NATS that outlives every interruption of it."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

from nats import errors as nats_errors
from nats.aio.subscription import Subscription

from contracts.errors import Invalid, Unavailable
from infra.bus.client import Client, Tap
from infra.bus.errors import ApiError
from infra.bus.replies import Replies, Reply
from infra.secrets.redaction import Redactor

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 5.0
RECONNECT_WAIT_S = 0.2
CONNECT_TIMEOUT_S = 2.0
DRAIN_TIMEOUT_S = 5.0
PING_INTERVAL_S = 10
MAX_PENDING_BYTES = 8 * 1024 * 1024

API = "cloche.api"
"""What every user but the admin calls the JetStream API of the account that holds the streams."""
HUB_API = "$JS.API"

_DENIED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')


class Bus:
    """One user's connection. Made by `connect`; reconnects for ever until `aclose`."""

    def __init__(self, url: str, user: str, name: str) -> None:
        self.url = url
        self.user = user
        self.name = name
        self.client = Client()
        self.replies = Replies(self.client)
        self.api_prefix = HUB_API if user == "admin" else API
        self.redactor = Redactor()
        """What goes to the log goes through it."""
        self.epoch = 0
        """Counts the connections; what was sent in an earlier epoch and not answered may be lost."""
        self._connected = asyncio.Event()
        self._lost: list[Callable[[], None]] = []
        self._last_complaint = ""

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
        """A request to the JetStream API with a JSON body. Raises `ApiError` and what `request` raises."""
        payload = b"" if body is None else json.dumps(body).encode()
        reply = await self.request(f"{self.api_prefix}.{name}", payload, timeout=timeout)
        answer: dict[str, Any] = json.loads(reply.data)
        if error := answer.get("error"):
            number = error.get("err_code", 0)
            raise ApiError(f"{name}: {error.get('description', error)}", number=number, status=error.get("code", 0))
        return answer

    async def publish(self, subject: str, payload: bytes = b"") -> None:
        """Fire and forget: for what may be lost. Facts go through `publisher.append`. Raises `Unavailable`."""
        try:
            await self.client.publish(subject, payload)
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

    def on_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """`call` whenever the connection is lost. Returns the way to stop that."""
        self._lost.append(call)
        return lambda: self._lost.remove(call) if call in self._lost else None

    async def aclose(self) -> None:
        """Sends what is waiting, within a bound, and closes. May be called twice."""
        if self.client.is_closed:
            return
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await self.client.drain()
        except (nats_errors.Error, TimeoutError, OSError):
            await self.client.close()
        self.replies.connection_lost()
        self._connected.set()

    async def open(self, password: str, patience_s: float) -> None:
        refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def complain(error: Exception) -> None:
            await self._on_error(error)
            if "authorization" in str(error).lower() and not refused.done():
                refused.set_result(f"{self.url} refuses user {self.user!r}: wrong password, or not our server")

        connecting = asyncio.create_task(self._connect(password, complain))
        either: list[asyncio.Future[Any]] = [connecting, refused]
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            await self.client.close()
            why = refused.result() if refused.done() else f"no NATS server answers at {self.url}"
            raise Unavailable(f"{why} ({self.client.last_error})" if self.client.last_error else why)
        connecting.result()
        await self.replies.open()
        await self.client.flush()
        self.epoch = 1
        self._connected.set()

    async def _connect(self, password: str, complain: Callable[[Exception], Awaitable[None]]) -> None:
        await self.client.connect(
            self.url,
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
        )

    async def _on_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if denied := _DENIED.search(text):
            self.replies.denied(denied.group(2))
        if text != self._last_complaint:
            self._last_complaint = text
            logger.warning("%s: %s", self.name, text)

    async def _on_disconnected(self) -> None:
        self._connected.clear()
        self.client.forget_unsent()
        self.replies.connection_lost()
        for call in list(self._lost):
            call()

    async def _on_reconnected(self) -> None:
        self._last_complaint = ""
        self.epoch += 1
        self._connected.set()

    async def _on_closed(self) -> None:
        self._connected.set()


async def connect(url: str, user: str, password: str, name: str, *, patience_s: float = CONNECT_TIMEOUT_S) -> Bus:
    """Connect as a user of the permission table.

    Raises `Unavailable` with the address if no server takes us within `patience_s`. Later interruptions are waited out.
    """
    bus = Bus(url, user, name)
    await bus.open(password, patience_s)
    return bus


@contextlib.asynccontextmanager
async def open_bus(
    url: str, user: str, password: str, name: str, *, patience_s: float = CONNECT_TIMEOUT_S
) -> AsyncIterator[Bus]:
    async with await connect(url, user, password, name, patience_s=patience_s) as bus:
        yield bus
