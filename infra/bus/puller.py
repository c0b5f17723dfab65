"""Takes messages from a durable consumer one at a time."""

import asyncio
import collections
import contextlib
import json
import logging
from collections.abc import AsyncIterator

from nats import errors as nats_errors
from nats.aio.msg import Msg

from infra.bus import headers
from infra.bus.client import STORED
from infra.bus.connection import Bus

logger = logging.getLogger(__name__)

PULL_EXPIRES_S = 20.0
MISSING_PAUSE_S = 0.5
NO_MESSAGES = frozenset({404, 408})
HEARTBEAT = 100
MOVED = 409
"""What a consumer says whose leader changes while somebody waits."""
HEARTBEAT_S = 2.0
SILENCE_S = 2.5 * HEARTBEAT_S
"""With a server that dies go those who wait there, also where the connection is to another and stays."""


class Puller:
    """What arrives is kept until it is taken, so an answer that crosses its own expiry is not lost."""

    def __init__(self, bus: Bus, stream: str, durable: str) -> None:
        self._bus = bus
        self._stream = stream
        self._durable = durable
        self._inbox = bus.client.new_inbox()
        self._arrived: collections.deque[Msg] = collections.deque()
        self._news = asyncio.Event()
        self._status = 0
        self._complained = False

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        tap = await self._bus.tap(self._inbox, self._take)
        stop_watching = self._bus.on_lost(self._news.set)
        try:
            yield
        finally:
            stop_watching()
            with contextlib.suppress(nats_errors.Error, OSError):
                await self._bus.client.untap(tap)

    async def next(self) -> Msg:
        """Waits for ever, through restarts of the server and of provisioning. Raises `Unavailable` if closed."""
        while True:
            if (msg := await self.next_within(PULL_EXPIRES_S)) is not None:
                return msg

    async def next_within(self, expires_s: float) -> Msg | None:
        """What has arrived, or comes in this time. Raises `Unavailable` if closed."""
        if not self._arrived:
            await self._bus.wait_connected()
            await self._ask(expires_s)
        if not self._arrived:
            return None
        self._complained = False
        return self._arrived.popleft()

    async def _ask(self, expires_s: float) -> None:
        self._news.clear()
        self._status = 0
        subject = f"{self._bus.api_prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._durable}"
        times = {"expires": expires_s, "idle_heartbeat": min(HEARTBEAT_S, expires_s / 2)}
        body = json.dumps({"batch": 1, **{name: int(seconds * 1e9) for name, seconds in times.items()}}).encode()
        with contextlib.suppress(nats_errors.Error, TimeoutError):
            await self._bus.client.publish(subject, body, reply=self._inbox)
            await self._answered()
        if not self._arrived and self._status and self._status not in NO_MESSAGES:
            await self._unserved()

    async def _answered(self) -> None:
        """Raises `TimeoutError` once nothing has come for a while, not even a sign that somebody still waits for us."""
        while not self._arrived and not self._status and self._bus.is_connected:
            async with asyncio.timeout(SILENCE_S):
                await self._news.wait()
            self._news.clear()

    async def _unserved(self) -> None:
        if not self._complained and self._status != MOVED:
            self._complained = True
            logger.error(
                "consumer %s of %s does not answer (%s): has it been provisioned?",
                self._durable, self._stream, self._status,
            )  # fmt: skip
        await asyncio.sleep(MISSING_PAUSE_S)

    def _take(self, subject: bytes, reply: bytes, data: bytes, raw: bytes | None) -> None:
        # What is in the stream is a message, even if its publisher wrote a status into its headers.
        status = 0 if reply.startswith(STORED) else headers.status(raw)
        if status == HEARTBEAT:
            self._news.set()
            return
        if status:
            self._status = status
        else:
            names = self._bus.client.parse_headers(raw)
            self._arrived.append(
                Msg(
                    _client=self._bus.client,
                    subject=subject.decode("utf-8", "replace"),
                    reply=reply.decode(),
                    data=data,
                    headers=names,
                )
            )
        self._news.set()
