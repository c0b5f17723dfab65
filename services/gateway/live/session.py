"""One connection: what happened and happens goes out, orders come in."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import Struct

from contracts.access import Principal
from contracts.errors import ClocheError, Invalid, Unauthenticated, Unavailable
from infra import clock
from infra.proxy.bucket import Bucket
from infra.settings import Gateway
from services.gateway import metrics
from services.gateway.live.ending import FAILED, TAKES_NOTHING, TOKEN_EXPIRED, Ending, Left, TakesNothing
from services.gateway.live.frames import (
    CommandFrame,
    Heartbeat,
    PingFrame,
    Pong,
    Problem,
    Result,
    Subscribed,
    SubscribeFrame,
    id_in,
    problem_frame,
    read_frame,
)
from services.gateway.live.items import Item, sent_items
from services.gateway.live.lanes import Lanes
from services.gateway.live.pulse import Beat
from services.gateway.live.selection import Selection
from services.gateway.live.socket import Socket

logger = logging.getLogger(__name__)

SLOW_CLIENT = "SLOW_CLIENT"
LOOK_S = 60.0
"""Between looks at the clock, which somebody may set."""


Select = Callable[[SubscribeFrame], Awaitable[Selection]]
Follow = Callable[[Selection, int], AsyncGenerator[list[Item], None]]
CarryOut = Callable[[CommandFrame], Awaitable[Struct]]


class Source(NamedTuple):
    """Where a connection's events come from, and what it may ask for."""

    select: Select
    """Raises what is wrong with it."""
    follow: Follow
    """From a cursor on."""
    carry_out: CarryOut
    """Raises the reason when it cannot be."""


class Session:
    """Ends with the client, or with the reason why it was let go of."""

    def __init__(self, socket: Socket, source: Source, principal: Principal, settings: Gateway, pulse: Beat) -> None:
        self._socket = socket
        self._source = source
        self._principal = principal
        self._settings = settings
        self._pulse = pulse
        self._bucket = Bucket(settings.requests_per_s, settings.burst)
        self._cursor = 1
        self._following: asyncio.Task[None] | None = None

    async def run(self, selection: Selection, cursor: int) -> None:
        """Returns when it is over; never raises for what a client does."""
        self._cursor = cursor
        try:
            await self._serve(selection)
        except* Left:
            pass
        except* TakesNothing:
            metrics.dropped_slow_client()
            logger.warning("%s takes nothing and is let go of, at %d", self._principal.subject, self._cursor - 1)
            words = f"nothing was taken for {self._settings.slow_s:g} s: connect again, from={self._cursor}"
            problem = Problem(code=SLOW_CLIENT, message=words, sequence=self._cursor - 1)
            await self._end(problem, TAKES_NOTHING, str(self._cursor - 1))
        except* Ending as endings:
            ending = _first(endings, Ending)
            problem = Problem(code=Unauthenticated.code, message=ending.reason, sequence=self._cursor - 1)
            await self._end(problem, ending.code, ending.reason)
        except* ClocheError as errors:
            error = _first(errors, ClocheError)
            await self._end(problem_frame(error), FAILED, error.code)

    async def _serve(self, selection: Selection) -> None:
        async with asyncio.TaskGroup() as group:
            self._follow(group, selection)
            group.create_task(self._beat())
            group.create_task(self._expire())
            await self._hear(group, Lanes(group, self._carry_out))

    def _follow(self, group: asyncio.TaskGroup, selection: Selection) -> None:
        self._following = group.create_task(self._pass_on(selection))

    async def _pass_on(self, selection: Selection) -> None:
        async with contextlib.aclosing(self._source.follow(selection, self._cursor)) as batches:
            async for items in batches:
                await self._socket.pass_on(items)
                sent_items(items)
                self._cursor = items[-1].sequence + 1

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.heartbeat_s)
            head = await self._pulse.roughly()
            await self._socket.tell(Heartbeat(timestamp=clock.now(), head_sequence=head))

    async def _expire(self) -> None:
        ends = self._principal.expires_at
        while ends is not None:
            left = ends - time.time()
            if left <= 0:
                raise Ending(TOKEN_EXPIRED, "the token has expired")
            await asyncio.sleep(min(left, LOOK_S))

    async def _hear(self, group: asyncio.TaskGroup, lanes: Lanes) -> None:
        while True:
            text = await self._socket.heard()
            if not self._bucket.take():
                # Whoever says too much is read more slowly, so that nothing of it is lost.
                await asyncio.sleep(1 / self._settings.requests_per_s)
            try:
                await self._heed(group, lanes, text)
            except ClocheError as error:
                await self._socket.tell(problem_frame(error, id_in(text or "")))

    async def _heed(self, group: asyncio.TaskGroup, lanes: Lanes, text: str | None) -> None:
        if text is None:
            raise Invalid("not a frame: send text, not bytes")
        match frame := read_frame(text):
            case PingFrame():
                await self._socket.tell(Pong(id=frame.id))
            case SubscribeFrame():
                await self._subscribe(group, frame)
            case CommandFrame():
                await lanes.put(frame)

    async def _subscribe(self, group: asyncio.TaskGroup, frame: SubscribeFrame) -> None:
        selection = await self._source.select(frame)
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        if frame.from_ is not None:
            self._cursor = max(frame.from_, 1)
        told = Subscribed(id=frame.id, from_=self._cursor, types=selection.types, sandboxes=selection.sandboxes)
        await self._socket.tell(told)
        self._follow(group, selection)

    async def _carry_out(self, frame: CommandFrame, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                payload = await self._source.carry_out(frame)
            await self._socket.tell(Result(id=frame.id, command=frame.command, payload=payload))
        except TimeoutError:
            late = Unavailable(f"{frame.command}: nothing came of it within {patience_s:g} s; the log will tell")
            await self._socket.tell(problem_frame(late, frame.id))
        except ClocheError as error:
            await self._socket.tell(problem_frame(error, frame.id))

    async def _end(self, problem: Problem, code: int, reason: str) -> None:
        with contextlib.suppress(Left, TakesNothing):
            await self._socket.tell(problem)
            await self._socket.close(code, reason)


def _first(group: BaseExceptionGroup[Any], kind: type[Any]) -> Any:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            return _first(each, kind)
        if isinstance(each, kind):
            return each
    raise group
