"""One request and its answer, on connections to both sides."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from infra.proxy.answers import Failed
from infra.proxy.beside import Beside
from infra.proxy.connection import Connection, Phase
from infra.proxy.framing import Body, Chunked, Endless, Sized, body_of_response, chunk, last_chunk
from infra.proxy.head import Field, ResponseHead
from infra.proxy.joining import join
from infra.proxy.port import Refused
from infra.proxy.reading import response_head
from infra.proxy.wire import Broken, Wire

MOST_INTERIM = 32
QUIET_S = 0.05
"""After which a filter lets go what it holds back, whatever it is: a stream of events must not stop at it."""
SWITCHING = 101
NO_CONTENT = 204


class Filter(Protocol):
    """What becomes of an answer before the client sees it. Payload keeps its length."""

    def fields(self, fields: Sequence[Field]) -> Sequence[Field]:
        """Raises `Failed` for an answer that cannot be looked into."""
        ...

    def head(self, raw: bytes) -> bytes: ...

    def feed(self, payload: bytes) -> bytes: ...

    def end(self) -> bytes:
        """What was held back; more may follow."""
        ...


class Stale(Exception):
    """A kept connection turned out to be closed: nothing was answered on it."""


class Request(Struct, frozen=True, kw_only=True):
    method: str
    minor: int
    head: bytes
    """As it goes on."""
    body: Sized | Chunked
    keep: bool
    """The client wants its connection to be kept."""
    upgrade: bool


class Exchange:
    def __init__(self, client: Connection, upstream: Wire, request: Request, sieve: Filter | None = None) -> None:
        self.status: int | None = None
        self.begun = False
        """Something of the final answer has gone to the client."""
        self.reusable = False
        """The other side's connection is in order for another request."""
        self._interim = False
        self._client = client
        self._upstream = upstream
        self._request = request
        self._sieve = sieve

    async def run(self) -> bool:
        """True when the client's connection can take another request.

        Raises `Failed`, `Refused` for a malformed body, and `Stale` when the connection ended without an answer.
        """
        self._send()
        if self._request.body.done:
            return await self._answer()
        async with Beside(self._client, self._upload()):
            return await self._answer()

    def _send(self) -> None:
        """The head and what has already come of the body, in one piece."""
        client, body = self._client, self._request.body
        payload = b"" if body.done or not client.held else self._outgoing(client.use(len(client.held)))
        self._upstream.write(self._request.head + payload)

    def _outgoing(self, data: bytes) -> bytes:
        body = self._request.body
        payload = body.feed(data)
        self._client.put_back(body.rest)
        if isinstance(body, Sized):
            return payload
        return chunk(payload) + (last_chunk(body.trailers) if body.done else b"")

    async def _upload(self) -> None:
        body, upstream = self._request.body, self._upstream
        while not body.done:
            await upstream.drain()
            data = await _more(self._client, body)
            if upstream.lost:
                return
            upstream.write(self._outgoing(data))

    async def _answer(self) -> bool:
        head = await self._final_head()
        self.status = head.status
        if head.status == SWITCHING:
            await self._switch(head)
            return False
        body = self._body(head)
        await self._pass_on(head, body, keep=(keep := self._client_stays(body)))
        self.reusable = self._other_side_stays(head, body)
        return keep

    def _body(self, head: ResponseHead) -> Sized | Chunked | Endless:
        try:
            return body_of_response(head, self._request.method)
        except Refused as refusal:
            raise Failed(f"the answer: {refusal.reason}") from None

    def _client_stays(self, body: Sized | Chunked | Endless) -> bool:
        """Its next request can be told from this one, and it can tell the next answer from this one."""
        ends = isinstance(body, Sized) or (isinstance(body, Chunked) and self._request.minor == 1)
        return self._request.keep and self._request.body.done and ends

    async def _final_head(self) -> ResponseHead:
        for _ in range(MOST_INTERIM):
            head = await self._head()
            if head.status >= 200 or head.status == SWITCHING:
                return head
            self._interim = True
            if self._request.minor == 1:
                self._client.write(self._built(head, []))
        raise Failed("too many interim answers")

    async def _head(self) -> ResponseHead:
        before = self._upstream.received
        try:
            head = await response_head(self._upstream)
        except Refused as refusal:
            raise Failed(refusal.reason) from None
        except Broken:
            head = None
        if head is not None:
            return head
        if self._interim or self._upstream.received != before:
            raise Failed("the connection was closed in the middle of the answer")
        raise Stale

    async def _pass_on(self, head: ResponseHead, body: Sized | Chunked | Endless, *, keep: bool) -> None:
        chunked = isinstance(body, Chunked) and self._request.minor == 1
        out = self._built(head, self._framing(head, chunked=chunked, keep=keep))
        while not body.done:
            if not self._upstream.held:
                out = self._said(out)
                if self._sieve is not None and not body.behind:
                    self._said(_framed(await _held_back(self._sieve, self._upstream), chunked=chunked))
            data = await self._next(body)
            out = self._said(out + self._incoming(body, data, chunked=chunked))
            await self._client.drain()
        self._said(out)

    def _said(self, out: bytes) -> bytes:
        """What is left to say: nothing."""
        if out:
            self.begun = True
            self._client.write(out)
        return b""

    async def _next(self, body: Sized | Chunked | Endless) -> bytes:
        try:
            return await _more(self._upstream, body)
        except (Broken, Refused):
            raise Failed("the connection was closed in the middle of the answer") from None

    def _incoming(self, body: Sized | Chunked | Endless, data: bytes, *, chunked: bool) -> bytes:
        try:
            payload = body.feed(data)
        except Refused as refusal:
            raise Failed(f"the answer: {refusal.reason}") from None
        self._upstream.put_back(body.rest)
        if self._sieve is not None:
            payload = self._sieve.feed(payload) + (self._sieve.end() if body.done else b"")
        framed = _framed(payload, chunked=chunked)
        return framed + self._last_chunk(body) if chunked and isinstance(body, Chunked) and body.done else framed

    def _last_chunk(self, body: Chunked) -> bytes:
        raw = last_chunk(body.trailers)
        return raw if self._sieve is None else self._sieve.head(raw)

    def _built(self, head: ResponseHead, further: list[bytes]) -> bytes:
        if self._sieve is None:
            return _head(head, head.fields.all, further)
        return self._sieve.head(_head(head, self._sieve.fields(head.fields.all), further))

    def _framing(self, head: ResponseHead, *, chunked: bool, keep: bool) -> list[bytes]:
        length = head.fields.one(b"content-length")
        lines = [b"Transfer-Encoding: chunked\r\n"] if chunked else []
        if length is not None and head.status != NO_CONTENT:
            lines.append(b"Content-Length: %b\r\n" % length)
        if not keep:
            lines.append(b"Connection: close\r\n")
        elif self._request.minor == 0:
            lines.append(b"Connection: keep-alive\r\n")
        return lines

    def _other_side_stays(self, head: ResponseHead, body: Sized | Chunked | Endless) -> bool:
        if isinstance(body, Endless) or head.minor == 0 or not self._request.body.done:
            return False
        return not self._upstream.held and b"close" not in head.fields.connection()

    async def _switch(self, head: ResponseHead) -> None:
        if not self._request.upgrade:
            raise Failed("the answer: a switch of protocols that nobody asked for")
        self.begun = True
        lines = [b"Connection: Upgrade\r\n", b"Upgrade: websocket\r\n"]
        self._client.write(self._built(head, lines))
        if self._sieve is None:
            await join(self._client, self._upstream)
            return
        self._client.enter(Phase.JOINED)
        self._client.pour_into(self._upstream)
        await self._pour_sifted(self._sieve)

    async def _pour_sifted(self, sieve: Filter) -> None:
        with contextlib.suppress(Broken):
            while data := await self._upstream.take():
                self._client.write(sieve.feed(data))
                await self._client.drain()
                self._client.write(await _held_back(sieve, self._upstream))
        self._client.write(sieve.end())


async def _held_back(sieve: Filter, source: Wire) -> bytes:
    """What it lets go now, as nothing more has come for a while; nothing, where something came or is at its end."""
    try:
        async with asyncio.timeout(QUIET_S):
            if not source.held:
                await source.more()
    except TimeoutError:
        return sieve.end()
    except Broken:
        pass
    return b""


def _framed(payload: bytes, *, chunked: bool) -> bytes:
    return chunk(payload) if chunked else payload


async def _more(source: Wire, body: Body) -> bytes:
    """To feed it with. Raises `Broken`, and `Refused` where it ended too early."""
    if body.behind:
        await asyncio.sleep(0)
        return b""
    data = await source.take()
    if not data:
        body.at_end()
    return data


def _head(head: ResponseHead, fields: Sequence[Field], further: list[bytes]) -> bytes:
    lines = [b"%b: %b\r\n" % (field.name, field.value) for field in fields]
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (head.status, head.reason, b"".join(lines), b"".join(further))
