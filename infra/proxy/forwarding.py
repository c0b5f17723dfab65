"""The proxy that a client is told of: whole addresses, CONNECT, and SOCKS."""

import asyncio
import functools
from collections.abc import Awaitable, Callable

from msgspec import structs

from infra.proxy import socks, target
from infra.proxy.answers import Failed, answer
from infra.proxy.bucket import Bucket
from infra.proxy.connection import TOO_SLOW, Connection, Phase
from infra.proxy.crossing import Crossing
from infra.proxy.exchange import Exchange, Filter, Request, Stale
from infra.proxy.framing import body_of_request
from infra.proxy.hello import ACCESS_DENIED, HELLO
from infra.proxy.joining import join
from infra.proxy.looking import Speech, look, on_the_web
from infra.proxy.onward import onward
from infra.proxy.port import TUNNEL, Gate, Refused, Wanted
from infra.proxy.requests import Turn, serve_requests
from infra.proxy.upstream import Place, Upstreams
from infra.proxy.wire import Wire

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
REPEATABLE = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE"))
UNANSWERED = "the connection was closed without an answer"
OTHER_GONE = "the other side has gone"
Reply = Callable[[Refused | Failed], bytes]


class Forwarding:
    def __init__(self, gate: Gate, upstreams: Upstreams, bucket: Bucket) -> None:
        self._gate = gate
        self._upstreams = upstreams
        self._bucket = bucket

    async def serve(self, client: Connection) -> None:
        """Everything that comes on one connection."""
        if not client.held and not await client.more():
            return
        if client.held[0] in (socks.SOCKS4, socks.SOCKS5):
            await self._socks(client)
        else:
            await serve_requests(client, self._gate, self._request)

    async def permitted(self, turn: Turn, request: Request, sieve: Filter | None = None, *, tls: bool = False) -> bool:
        """Asks for permission, then exchanges request and answer. As `requests.Serve` has it."""
        wanted = turn.wanted
        assert wanted is not None
        self._count()
        turn.client.enter(Phase.ASKING)
        try:
            passage = await self._gate.ask(wanted)
        except Refused as refusal:
            keep = request.keep and request.body.done
            turn.refuse(refusal, keep=keep)
            return keep
        with Crossing(passage, turn.client) as crossing:
            turn.client.enter(Phase.UNDER_WAY)
            return await self._exchange(turn, request, crossing, sieve, tls=tls)

    async def _request(self, turn: Turn) -> bool:
        head = turn.head
        if head.method == TUNNEL:
            await self._connect(turn)
            return False
        to = target.absolute(head)
        turn.wanted = Wanted(via="http", host=to.host, port=to.port, method=head.method, path=to.path())
        turn.body = body_of_request(head)
        return await self.permitted(turn, onward(head, to.origin, to.authority(), turn.body))

    async def _exchange(
        self, turn: Turn, request: Request, crossing: Crossing, sieve: Filter | None, *, tls: bool
    ) -> bool:
        wanted = turn.wanted
        assert wanted is not None
        repeatable = request.method in REPEATABLE and request.body.done
        place, upstream, kept = await self._upstream(crossing, wanted, tls=tls, repeatable=repeatable)
        try:
            exchange = _begin(turn, upstream, request, sieve)
            keep = await _run(exchange, crossing)
        except Stale:
            if not (kept and repeatable):
                raise Failed(UNANSWERED) from None
            upstream.abort()
            place, upstream = await self._dial(crossing, wanted, tls=tls)
            exchange = _begin(turn, upstream, request, sieve)
            keep = await _last(_run(exchange, crossing))
        if exchange.reusable:
            crossing.release()
            self._upstreams.keep(place, upstream)
        return keep

    async def _upstream(
        self, crossing: Crossing, wanted: Wanted, *, tls: bool, repeatable: bool
    ) -> tuple[Place, Wire, bool]:
        for address in crossing.addresses:
            place = Place(wanted.host, address, wanted.port, tls)
            if (wire := self._upstreams.kept(place, repeatable=repeatable)) is not None:
                crossing.through(wire, address)
                return place, wire, True
        return *await self._dial(crossing, wanted, tls=tls), False

    async def _dial(self, crossing: Crossing, wanted: Wanted, *, tls: bool = False) -> tuple[Place, Wire]:
        """To the first address that answers. Raises `Failed` with what the last one said."""
        failure = Failed("it has no address")
        for address in crossing.addresses:
            place = Place(wanted.host, address, wanted.port, tls)
            try:
                wire = await self._upstreams.dial(place)
            except Failed as failed:
                failure = failed
                continue
            crossing.through(wire, address)
            return place, wire
        raise failure

    async def _connect(self, turn: Turn) -> None:
        to = target.tunnel(turn.head)
        wanted = turn.wanted = Wanted(via="connect", host=to.host, port=to.port, method=TUNNEL, path=None)
        turn.begun = lambda: turn.client.tunnelled
        self._count()
        await self._tunnel(turn.client, wanted, ESTABLISHED, lambda refusal: answer(refusal, wanted, close=True))

    async def _socks(self, client: Connection) -> None:
        client.enter(Phase.HEAD)
        wanted: Wanted | None = None
        try:
            asked = await socks.read_socks(client)
            wanted = Wanted(via="socks", host=asked.host, port=asked.port, method=TUNNEL, path=None)
            self._count()
        except Refused as refusal:
            self._gate.refused(wanted, refusal.reason, "SOCKS")
            client.write(socks.reply_to(refusal))
            await client.linger()
            return
        except asyncio.CancelledError:
            if client.stopped is not None and client.stopped.status == TOO_SLOW:
                self._gate.refused(None, client.stopped.reason, "SOCKS")
            raise
        await self._tunnel(client, wanted, socks.ACCEPTED, socks.reply_to)

    async def _tunnel(self, client: Connection, wanted: Wanted, accepted: bytes, reply: Reply) -> None:
        client.enter(Phase.ASKING)
        try:
            passage = await self._gate.ask(wanted)
        except Refused as refusal:
            client.write(reply(refusal))
            return
        with Crossing(passage, client) as crossing:
            client.enter(Phase.UNDER_WAY)
            try:
                place, upstream = await self._dial(crossing, wanted)
            except Failed as failure:
                crossing.error = failure.reason
                client.write(reply(failure))
                return
            client.write(accepted)
            client.tunnelled = True
            crossing.status = 200
            if await self._through(client, upstream, wanted, crossing) is Speech.HTTP:
                await self._in_clear(client, place, wanted, crossing)

    async def _through(self, client: Connection, upstream: Wire, wanted: Wanted, crossing: Crossing) -> Speech | None:
        """Until its end, unless it is HTTP. None where it was refused."""
        upstream.on_ended = functools.partial(_pass_end, upstream, client)
        if upstream.lost or upstream.eof:
            upstream.on_ended()
        if not on_the_web(wanted):
            # Some servers speak first, and their clients wait for it.
            upstream.pour_into(client)
        try:
            speech = await look(client, upstream, wanted)
        except Refused as refusal:
            upstream.on_ended = None
            crossing.deny(refusal.reason)
            upstream.abort()
            if client.held.startswith(HELLO):
                client.write(ACCESS_DENIED)
            await client.linger()
            return None
        upstream.on_ended = None
        if speech is Speech.HTTP and not upstream.eof:
            upstream.stop_pouring()
            return speech
        if speech is not Speech.HTTP:
            await join(client, upstream)
        return None

    async def _in_clear(self, client: Connection, place: Place, wanted: Wanted, crossing: Crossing) -> None:
        """HTTP within a tunnel: each request is asked about and told by itself, and goes to where the tunnel leads."""

        upstream = client.upstream

        async def serve(turn: Turn) -> bool:
            nonlocal upstream
            turn.wanted = wanted
            to = target.fixed(turn.head, wanted.host, wanted.port)
            turn.wanted = structs.replace(wanted, method=turn.head.method, path=to.path())
            turn.body = body_of_request(turn.head)
            if upstream is not None:
                crossing.release()
                self._upstreams.keep(place, upstream)
                upstream = None
            return await self.permitted(turn, onward(turn.head, to.origin, to.authority(), turn.body))

        await serve_requests(client, self._gate, serve)

    def _count(self) -> None:
        """Raises `Refused` over the rate."""
        if not self._bucket.take():
            raise Refused("too many requests", 429)


def _pass_end(upstream: Wire, client: Connection) -> None:
    if upstream.lost:
        client.stop(Refused(OTHER_GONE))
    elif not upstream.held:
        client.end_writing()


def _begin(turn: Turn, upstream: Wire, request: Request, sieve: Filter | None) -> Exchange:
    exchange = Exchange(turn.client, upstream, request, sieve)
    turn.begun = lambda: exchange.begun
    return exchange


async def _run(exchange: Exchange, crossing: Crossing) -> bool:
    try:
        return await exchange.run()
    finally:
        crossing.status = exchange.status


async def _last(running: Awaitable[bool]) -> bool:
    """There is no other connection to try it on."""
    try:
        return await running
    except Stale:
        raise Failed(UNANSWERED) from None
