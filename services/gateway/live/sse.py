"""Events of a sandbox as a stream of server-sent events, for whoever has no WebSocket."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter, SkipValidation
from litestar.response import Stream
from msgspec import Struct

from contracts.access import Principal
from contracts.errors import ClocheError
from infra import clock
from services.gateway.live.asked import asked_for, sequence_in
from services.gateway.live.frames import Heartbeat, SubscribeFrame, encode, problem_frame
from services.gateway.live.items import Item, sent_items
from services.gateway.live.live import Live
from services.gateway.live.opening import Opened, open_sandbox
from services.gateway.routes.access import may_do
from services.gateway.routes.params import SandboxParam, TheDesk

EVENT_STREAM = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


@get(
    "/{sandbox_id:str}/events/stream",
    operation_id="followEvents",
    summary="Follow a sandbox's events",
    media_type=EVENT_STREAM,
)
async def stream(
    request: Request[Principal, Any, Any],
    desk: TheDesk,
    live: SkipValidation[NamedDependency[Live]],
    sandbox_id: SandboxParam,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID", max_length=20)] = None,
    from_: Annotated[  # noqa: ARG001
        int | None, QueryParameter(name="from", ge=0, description="A sequence; absent = from now on.")
    ] = None,
    types: Annotated[  # noqa: ARG001
        list[str] | None,
        QueryParameter(name="type", description="A tag (`command.output`) or a family (`command`); may be repeated."),
    ] = None,
) -> Stream:
    """Frames as those of the WebSocket, one in each message; the id of an event is its sequence."""
    wanted = asked_for(request.query_params)
    if last_event_id:
        wanted = _after(wanted, sequence_in(last_event_id, "Last-Event-ID"))
    live.places.check(request.user)
    opened = await open_sandbox(desk, live, request.user, sandbox_id, wanted)
    texts = _texts(opened, live, request.user, desk.settings.gateway.heartbeat_s)
    return Stream(texts, media_type=EVENT_STREAM, headers=HEADERS)


def _after(wanted: SubscribeFrame, last: int) -> SubscribeFrame:
    """What a client says that it has seen counts more than the address that it began with."""
    return msgspec.structs.replace(wanted, from_=last + 1)


async def _texts(opened: Opened, live: Live, principal: Principal, beat_s: float) -> AsyncGenerator[bytes, None]:
    with live.place("sse", principal):
        yield _message(opened.connected)
        try:
            async with contextlib.aclosing(opened.source.follow(opened.selection, opened.cursor)) as batches:
                async for items in _until_expired(batches, principal, beat_s):
                    if items:
                        sent_items(items)
                        yield b"".join(_event(item) for item in items)
                    else:
                        yield _message(Heartbeat(timestamp=clock.now(), head_sequence=await live.pulse.roughly()))
        except ClocheError as error:
            yield _message(problem_frame(error))


async def _until_expired(
    batches: AsyncGenerator[list[Item], None], principal: Principal, beat_s: float
) -> AsyncGenerator[list[Item] | None, None]:
    """None where nothing came for a while."""
    upcoming: asyncio.Future[list[Item] | None] | None = None
    try:
        while (left := _left(principal)) > 0:
            upcoming = upcoming or asyncio.ensure_future(anext(batches, None))
            done, _ = await asyncio.wait([upcoming], timeout=min(beat_s, left))
            if not done:
                yield None
            elif (items := upcoming.result()) is not None:
                upcoming = None
                yield items
            else:
                # That was all that there will ever be.
                upcoming = asyncio.get_running_loop().create_future()
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)


def _left(principal: Principal) -> float:
    return math.inf if principal.expires_at is None else principal.expires_at - time.time()


def _event(item: Item) -> bytes:
    # A line break can only stand between the parts of a JSON text, where a blank does as well.
    body = item.body.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"id: %d\ndata: %b\n\n" % (item.sequence, body) if item.sandbox else b"data: %b\n\n" % body


def _message(frame: Struct) -> bytes:
    return b"data: %b\n\n" % encode(frame)


ROUTER = Router(
    "/api/v1/sandboxes",
    route_handlers=[stream],
    guards=[may_do],
    tags=["events"],
    security=[{"token": []}, {"session": []}],
)
