"""A sandbox at any moment: all that it was, and what its terminals showed."""

from typing import Annotated

from litestar import Router, get
from litestar.params import QueryParameter

from contracts.http.moments import read_moment
from contracts.http.network import NetworkView
from contracts.ids import TOKEN_PATTERN
from contracts.past import StateAt
from contracts.screens import MAX_SCROLLBACK, Screen
from infra.client.past import state_at
from infra.client.screens import screen_at
from services.gateway.desk import Desk
from services.gateway.routes.params import At, Found, TheDesk


@get("/state", operation_id="getState", summary="A sandbox at any moment")
async def state(desk: TheDesk, found: Found, at: At = None) -> StateAt:
    """Its state, its agents' conversations and its traffic, as they were."""
    return await _at(desk, found.id, at)


@get("/terminal", operation_id="getTerminal", summary="What a terminal showed")
async def terminal(
    desk: TheDesk,
    found: Found,
    exec_id: Annotated[
        str | None,
        QueryParameter(
            name="exec",
            pattern=TOKEN_PATTERN,
            max_length=64,
            description="A command. Absent = the last that was started by then.",
        ),
    ] = None,
    at: At = None,
    lines: Annotated[int, QueryParameter(ge=0, le=MAX_SCROLLBACK, description="Lines above the screen, at most.")] = 0,
) -> Screen:
    """The screen as a terminal emulator has it: text and colours, and nothing that could do anything."""
    moment = None if at is None else read_moment(at)
    return await screen_at(desk.bus, found.id, exec_id, moment, lines)


@get("/network", operation_id="getNetwork", summary="What a sandbox may reach, and what it asked for")
async def network(desk: TheDesk, found: Found, at: At = None) -> NetworkView:
    then = await _at(desk, found.id, at)
    return NetworkView(
        sequence=then.sequence,
        network=then.state.spec.network,
        approvals=then.state.approvals,
        traffic=then.traffic,
        lacking=then.lacking,
    )


async def _at(desk: Desk, sandbox: str, at: str | None) -> StateAt:
    moment = None if at is None else read_moment(at)
    if moment is None or isinstance(moment, int):
        return await state_at(desk.bus, sandbox, moment)
    return await state_at(desk.bus, sandbox, time=moment)


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[state, terminal, network], tags=["state"])
