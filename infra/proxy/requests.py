"""The requests of one connection, one after another."""

import asyncio
from collections.abc import Awaitable, Callable

from infra.proxy.answers import Failed, answer, printable
from infra.proxy.connection import TOO_SLOW, Connection, Phase
from infra.proxy.framing import Chunked, Sized
from infra.proxy.head import RequestHead, read_request
from infra.proxy.port import Gate, Refused, Wanted
from infra.proxy.reading import raw_head
from infra.proxy.wire import Broken

ECHOING = frozenset(("TRACE", "TRACK"))


class Turn:
    """One request, for as long as it is being served."""

    def __init__(self, client: Connection) -> None:
        self.client = client
        self.head: RequestHead
        self.raw = b""
        self.wanted: Wanted | None = None
        self.body: Sized | Chunked | None = None
        self.begun: Callable[[], bool] = lambda: False
        """Something of the final answer has gone to the client."""

    def refuse(self, refusal: Refused | Failed, *, keep: bool = False) -> None:
        """Answered, unless an answer has begun."""
        if self.begun():
            self.client.reset()
            return
        with_body = not self.raw.startswith(b"HEAD ")
        self.client.write(answer(refusal, self.wanted, close=not keep, body=with_body))


Serve = Callable[[Turn], Awaitable[bool]]
"""Serves one request; True when another may follow. Raises `Refused` for what the gate was not asked about."""


async def serve_requests(client: Connection, gate: Gate, serve: Serve) -> None:
    """Until the client ends, or a request ends the connection."""
    while True:
        client.enter(Phase.IDLE)
        # One who asks much and reads nothing waits for himself, and the others do not wait for him.
        await client.drain()
        if client.held:
            await asyncio.sleep(0)
        if not client.held and not await client.more():
            return
        turn = Turn(client)
        if not await _one(turn, gate, serve):
            break
    if client.held or turn.body is None or not turn.body.done:
        await client.linger()


async def _one(turn: Turn, gate: Gate, serve: Serve) -> bool:
    client = turn.client
    try:
        client.enter(Phase.HEAD)
        turn.raw = client.held
        turn.raw = await raw_head(client)
        turn.head = read_request(turn.raw)
        if turn.head.method.upper() in ECHOING:
            raise Refused(f"{turn.head.method} is not let through: it would echo what others added", 405)
        return await serve(turn)
    except Refused as refusal:
        gate.refused(turn.wanted, refusal.reason, printable(turn.raw))
        turn.refuse(refusal)
    except Failed as failure:
        turn.refuse(failure)
    except Broken:
        client.reset()
    except asyncio.CancelledError:
        _stopped(turn, gate)
        raise
    return False


def _stopped(turn: Turn, gate: Gate) -> None:
    """By a limit, or since the client or the permission has gone."""
    why = turn.client.stopped
    if why is None or turn.client.lost:
        return
    if why.status in (400, TOO_SLOW, 431):
        gate.refused(turn.wanted, why.reason, printable(turn.raw or turn.client.held))
    turn.refuse(why)
