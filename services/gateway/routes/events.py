"""What happened in a sandbox, page by page, and what people say to it."""

from collections.abc import Sequence
from typing import Annotated

from litestar import Response, Router, get, post
from litestar.params import JSONBody, QueryParameter

from contracts import subjects
from contracts.errors import Invalid
from contracts.http import moments
from contracts.http.events import EventPage, Message, Said
from contracts.http.sandboxes import Accepted
from contracts.lacking import Lack
from contracts.queries import LoggedEvent
from infra.bus import reader
from infra.log.ahead import Ahead
from infra.log.choosing import view_of
from infra.log.lacking import lacking
from infra.log.live import LiveView
from infra.moments import sequence_at
from services.gateway.desk import Desk
from services.gateway.routes.answers import answer
from services.gateway.routes.looking import logged
from services.gateway.routes.orders import send_and_hear
from services.gateway.routes.params import MOST_SEQUENCE, Asked, Found, Key, Limit, TheDesk
from services.gateway.routes.said import SpokenBody, obeyed_by
from services.gateway.routes.waiting import Wait

PAGE_BYTES = 4 << 20
MOST_TYPES = 20
HEARD = {200: answer(LoggedEvent, "The event that came of it.")}


@get("/events", operation_id="listEvents", summary="What happened in a sandbox")
async def events(
    desk: TheDesk,
    found: Found,
    start: Annotated[
        int, QueryParameter(name="from", ge=0, le=MOST_SEQUENCE, description="The first sequence wanted: the cursor.")
    ] = 1,
    types: Annotated[
        list[str] | None,
        QueryParameter(
            name="type",
            max_items=MOST_TYPES,
            description="A tag (`command.output`) or a family (`command`); may be repeated, or several with commas.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        QueryParameter(pattern=moments.PATTERN, max_length=40, description="Only what was stored after this time."),
    ] = None,
    limit: Limit = 100,
) -> EventPage:
    """In the order of the log, each exactly as it stands there. `next` is the cursor to go on from."""
    filters = subjects.typed(found.id, _apart(types or ()))
    view = await view_of(desk.bus, found.id)
    begin = max(start, found.state.first_sequence, await _after(desk, found.id, since))
    head = (await view.bounds()).last
    if begin > head + 1:
        # Whoever has seen more than there is followed a log that has lost its end since.
        lost = Lack(first_sequence=head + 1, last_sequence=begin - 1)
        return EventPage(events=(), next=head + 1, more=False, lacking=(lost,), head_sequence=head)
    if isinstance(view, LiveView):
        entries, pending = await reader.fetch(desk.bus, filters, begin, limit=limit, max_bytes=PAGE_BYTES)
    else:
        ahead = Ahead(desk.bus, view, filters, None, entries=limit + 1, max_bytes=PAGE_BYTES)
        entries = await ahead.page(begin)
        entries, pending = entries[:limit], len(entries[limit:])
    # What was stored up to the head and matches is on the page, so the next look need not step over the rest again.
    following = entries[-1].seq + 1 if entries else begin
    following = following if pending else max(following, head + 1)
    return EventPage(
        events=tuple(map(logged, entries)),
        next=following,
        more=pending > 0,
        lacking=await lacking(view, begin, following - 1),
        head_sequence=head,
    )


def _apart(listed: Sequence[str]) -> list[str]:
    """Raises `Invalid`."""
    found = [each for some in listed for each in some.split(",")]
    if len(found) > MOST_TYPES:
        raise Invalid(f"type: {MOST_TYPES} at most")
    return found


async def _after(desk: Desk, sandbox: str, since: str | None) -> int:
    if since is None:
        return 1
    try:
        return await sequence_at(desk.bus, sandbox, moments.read_moment(since, "since")) + 1
    except Invalid:
        if since.isdigit():
            raise
        # Before everything.
        return 1


@post(
    "/events", status_code=202, operation_id="say", summary="Speak to an agent, or answer a question", responses=HEARD
)
async def say(
    request: Asked, desk: TheDesk, found: Found, data: JSONBody[Said], wait: Wait = 0, idempotency_key: Key = None
) -> Response[Accepted]:
    """200 with the event once it is on record, if that is within `wait` seconds; else 202.

    Refused where no agent is at work, or nobody waits for that answer: told at once with `wait`, and in the log.
    """
    order, heard_on = obeyed_by(data, found.id)
    return await send_and_hear(desk, request.user, found, order, heard_on, wait=wait, key=idempotency_key)


@post(
    "/messages",
    status_code=202,
    operation_id="sendMessage",
    summary="Tell an agent something",
    responses=HEARD,
    dto=SpokenBody,
)
async def message(
    request: Asked,
    desk: TheDesk,
    found: Found,
    data: JSONBody[Said | Message],
    wait: Wait = 0,
    idempotency_key: Key = None,
) -> Response[Accepted]:
    """The same as `POST …/events`; what has no `type` is a `user.message`."""
    order, heard_on = obeyed_by(data, found.id)
    return await send_and_hear(desk, request.user, found, order, heard_on, wait=wait, key=idempotency_key)


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[events, say, message], tags=["events"])
