"""Answers to what this connection has sent: acknowledgements, API replies, pages of messages."""

import asyncio
import itertools
from collections.abc import Callable
from typing import NamedTuple

from contracts.errors import ClocheError, Unavailable
from infra.bus import headers
from infra.bus.client import Client, Tap
from infra.bus.errors import Denied, NobodyAnswers

NO_RESPONDERS = 503


class Reply(NamedTuple):
    data: bytes
    headers: bytes | None
    subject: str
    """Of the reply: the inbox, or for a pulled message the one that it was published on."""
    reply: str

    @property
    def status(self) -> int:
        return headers.status(self.headers)


OnReply = Callable[[Reply], None]
OnFailure = Callable[[ClocheError], None]


class _Waiting(NamedTuple):
    subject: str
    tap: Tap
    on_failure: OnFailure
    once: bool


class Replies:
    """One inbox for a connection. Whoever waits learns at once of a lost connection and of a denied subject."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: dict[str, _Waiting] = {}
        self._numbers = itertools.count(1)
        self._prefix = ""

    async def open(self) -> None:
        self._prefix = f"{self._client.new_inbox()}."
        await self._client.tap(f"{self._prefix}*", self._arrived)

    async def send(
        self,
        subject: str,
        payload: bytes,
        on_reply: OnReply,
        on_failure: OnFailure,
        *,
        headers: dict[str, str] | None = None,
        once: bool = False,
    ) -> str:
        """Publish and await one reply (`once`), or any number until `forget` is called with the returned token.

        `on_failure` is called at most once, and nothing after it. Both callbacks run inside the read loop.
        Raises what the client's `publish` raises; then neither callback is called.
        """

        def tap(inbox: bytes, reply: bytes, data: bytes, raw: bytes | None) -> None:
            on_reply(Reply(data, raw, inbox.decode("utf-8", "replace"), reply.decode("utf-8", "replace")))

        return await self._send(_Waiting(subject, tap, on_failure, once), payload, headers)

    async def send_raw(self, subject: str, payload: bytes, tap: Tap, on_failure: OnFailure) -> str:
        """Like `send` with any number of replies, handed over as they come: for pages of very many."""
        return await self._send(_Waiting(subject, tap, on_failure, once=False), payload, None)

    async def _send(self, waiting: _Waiting, payload: bytes, headers: dict[str, str] | None) -> str:
        token = str(next(self._numbers))
        self._waiting[token] = waiting
        try:
            await self._client.publish(waiting.subject, payload, reply=self._prefix + token, headers=headers)
        except Exception:
            self._waiting.pop(token, None)
            raise
        return token

    def forget(self, token: str) -> None:
        self._waiting.pop(token, None)

    async def ask(
        self, subject: str, payload: bytes, *, timeout: float, headers: dict[str, str] | None = None
    ) -> Reply:
        """One reply. Raises `Unavailable` (connection lost), `NobodyAnswers`, `Denied`, `TimeoutError`."""
        answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def on_reply(reply: Reply) -> None:
            if not answered.done():
                answered.set_result(reply)

        def on_failure(error: ClocheError) -> None:
            if not answered.done():
                answered.set_exception(error)

        token = await self.send(subject, payload, on_reply, on_failure, headers=headers, once=True)
        try:
            async with asyncio.timeout(timeout):
                reply = await answered
        finally:
            self.forget(token)
        if reply.status == NO_RESPONDERS:
            raise NobodyAnswers(f"nobody answers on {subject}")
        return reply

    def connection_lost(self) -> None:
        self._fail(list(self._waiting), Unavailable("the connection to NATS was lost before the answer"))

    def denied(self, subject: str) -> None:
        """The server names the subject in lower case."""
        matching = [token for token, waiting in self._waiting.items() if waiting.subject.lower() == subject]
        self._fail(matching, Denied(f"the server does not let this user publish on {subject}"))

    def _fail(self, tokens: list[str], error: ClocheError) -> None:
        for token in tokens:
            waiting = self._waiting.pop(token, None)
            if waiting:
                waiting.on_failure(error)

    def _arrived(self, subject: bytes, reply: bytes, data: bytes, raw: bytes | None) -> None:
        """A pulled message keeps its own subject, so it cannot come here: see `consumer.Puller`."""
        token = subject[len(self._prefix) :].decode("ascii", "replace")
        waiting = self._waiting.get(token)
        if waiting:
            if waiting.once:
                del self._waiting[token]
            waiting.tap(subject, reply, data, raw)
