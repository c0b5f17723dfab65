"""Sandboxes: made, listed, looked at, removed."""

from typing import Annotated

import msgspec
from litestar import Response, Router, delete, get, post
from litestar.params import JSONBody, QueryParameter

from contracts import codec, subjects
from contracts.commands.sandbox import CreateSandbox, RemoveSandbox
from contracts.errors import SandboxInvalidState
from contracts.http.sandboxes import Accepted, NewSandbox, SandboxDetail, SandboxPage
from contracts.partitions import origin_in
from contracts.queries import ListSandboxes
from contracts.state import SandboxState, Status
from infra.client.sandbox import brought_up
from infra.states import state_of
from services.gateway.patience import patience
from services.gateway.routes.answers import answer
from services.gateway.routes.lifecycle import moved
from services.gateway.routes.listing import labels_of, listed
from services.gateway.routes.looking import looked_at
from services.gateway.routes.made import made
from services.gateway.routes.naming import order_id, sandbox_id
from services.gateway.routes.orders import ordered
from services.gateway.routes.params import Asked, Found, Key, Limit, TheDesk
from services.gateway.routes.scoping import in_scope
from services.gateway.routes.waiting import Wait, within

Text = Annotated[str | None, QueryParameter(min_length=1, max_length=200)]
RECENT_EVENTS = 50


@post(
    "/",
    status_code=202,
    operation_id="createSandbox",
    summary="Make a sandbox",
    responses={201: answer(SandboxState, "It runs.")},
)
async def create(
    request: Asked, desk: TheDesk, data: JSONBody[NewSandbox], wait: Wait = 0, idempotency_key: Key = None
) -> Response[Accepted]:
    """201 with the sandbox once it runs, if that is within `wait` seconds; else 202, and it is told in the log."""
    origin = origin_in(codec.encode(data.spec))
    sandbox = data.id or sandbox_id(request.user, idempotency_key, desk.beside(origin))
    if origin is not None:
        desk.cloche.require_beside(sandbox, origin)
    spec = await in_scope(desk, request.user, sandbox, data.spec)
    desk = desk.of(sandbox)
    order = CreateSandbox(spec=msgspec.Raw(codec.encode(spec)))
    command = order_id(request.user, idempotency_key, f"create\0{sandbox}")
    async with patience():
        known = await state_of(desk.bus, sandbox)
    if known is None:
        await ordered(desk, subjects.ANY_NODE, sandbox, order, command)
    elif known.requested_by != command:
        raise SandboxInvalidState(f"there is a sandbox {sandbox!r} already")
    state = await within(wait, brought_up(desk.bus, sandbox, command))
    return made(sandbox, command, state)


@get("/", operation_id="listSandboxes", summary="List sandboxes")
async def sandboxes(
    request: Asked,
    desk: TheDesk,
    status: Annotated[Status | None, QueryParameter()] = None,
    task_id: Text = None,
    agent_id: Text = None,
    project_id: Text = None,
    label: Annotated[
        list[str] | None,
        QueryParameter(name="label", max_items=50, description="`key=value`; may be repeated: all of them must hold."),
    ] = None,
    removed: Annotated[bool, QueryParameter(description="Those that are removed, too.")] = False,
    after: Annotated[str | None, QueryParameter(max_length=64, description="`next` of the page before.")] = None,
    limit: Limit = 100,
) -> SandboxPage:
    """Those that the asker may see, by their ids."""
    query = ListSandboxes(
        status=status,
        task_id=task_id,
        agent_id=agent_id,
        project_id=project_id,
        label=labels_of(label or []),
        include_removed=removed,
        after=after,
        limit=limit,
    )
    return await listed(desk, request.user, query)


@get("/{sandbox_id:str}", operation_id="getSandbox", summary="Look at a sandbox")
async def sandbox(
    desk: TheDesk,
    found: Found,
    events: Annotated[
        int, QueryParameter(ge=0, le=200, description="How many of its last events to tell; 4 MiB at most.")
    ] = RECENT_EVENTS,
) -> SandboxDetail:
    """As it is now, with its last events. Also one that is removed."""
    return await looked_at(desk, found, events)


@delete(
    "/{sandbox_id:str}",
    status_code=202,
    operation_id="removeSandbox",
    summary="Remove a sandbox",
    responses={200: answer(SandboxState, "It is removed.")},
)
async def remove(
    request: Asked,
    desk: TheDesk,
    found: Found,
    reason: Annotated[str, QueryParameter(max_length=1000)] = "asked",
    wait: Wait = 0,
) -> Response[Accepted]:
    """Its record stays, and can be read for ever."""
    return await moved(desk, request.user, found, RemoveSandbox(reason=reason), {Status.REMOVED}, wait)


ROUTER = Router("/sandboxes", route_handlers=[create, sandboxes, sandbox, remove], tags=["sandboxes"])
