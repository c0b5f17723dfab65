"""Agents: begun and ended."""

from typing import Annotated

from litestar import Response, Router, delete, post
from litestar.params import JSONBody, QueryParameter

from contracts import subjects
from contracts.commands.agent import StartAgent, StopAgent
from contracts.http.sandboxes import Accepted
from contracts.ids import TOKEN_PATTERN
from contracts.queries import LoggedEvent
from services.gateway.routes.answers import answer
from services.gateway.routes.events import HEARD
from services.gateway.routes.orders import send_and_hear
from services.gateway.routes.params import Asked, Found, Key, TheDesk
from services.gateway.routes.waiting import Wait


@post(
    "/agent",
    status_code=202,
    operation_id="startAgent",
    summary="Begin a run of an agent",
    responses={200: answer(LoggedEvent, "Its `agent.started`.")},
)
async def start(
    request: Asked,
    desk: TheDesk,
    found: Found,
    data: JSONBody[StartAgent],
    wait: Wait = 0,
    idempotency_key: Key = None,
) -> Response[Accepted]:
    """The run's id is `command` of the answer. One run is open in a sandbox at a time."""
    heard_on = subjects.events_of(found.id, family="agent", kind="started", scope="*")
    return await send_and_hear(desk, request.user, found, data, heard_on, wait=wait, key=idempotency_key)


@delete("/agent", status_code=202, operation_id="stopAgent", summary="End a run of an agent", responses=HEARD)
async def stop(
    request: Asked,
    desk: TheDesk,
    found: Found,
    run: Annotated[
        str | None, QueryParameter(pattern=TOKEN_PATTERN, max_length=64, description="Absent = the one that is open.")
    ] = None,
    reason: Annotated[str, QueryParameter(max_length=1000)] = "asked",
    wait: Wait = 0,
) -> Response[Accepted]:
    """Its process ends with it."""
    heard_on = subjects.events_of(found.id, family="user")
    return await send_and_hear(desk, request.user, found, StopAgent(run=run, reason=reason), heard_on, wait=wait)


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[start, stop], tags=["agents"])
