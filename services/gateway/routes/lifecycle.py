"""A sandbox's life: paused, resumed, stopped, started."""

from litestar import Response, Router, post
from litestar.params import JSONBody

from contracts.access import Principal
from contracts.commands import sandbox as orders
from contracts.http.sandboxes import Accepted, Stop
from contracts.message import Order
from contracts.state import SandboxState, Status
from infra.client.sandbox import Sandbox, settled
from services.gateway.desk import Desk
from services.gateway.routes.answers import answer
from services.gateway.routes.orders import send
from services.gateway.routes.params import Asked, Found, Key, TheDesk
from services.gateway.routes.waiting import Wait, done, within

DONE = {200: answer(SandboxState, "It is so.")}
ENDED = {Status.STOPPED, Status.FAILED, Status.REMOVED}


async def moved(
    desk: Desk,
    principal: Principal,
    sandbox: Sandbox,
    order: Order,
    wanted: set[Status],
    wait: float,
    key: str | None = None,
) -> Response[Accepted]:
    """200 with the sandbox if it is as wanted within `wait` seconds; else 202. Raises why it cannot be."""
    accepted = await send(desk, principal, sandbox, order, key)
    state = await within(wait, settled(desk.bus, accepted.command, wanted, sandbox.state))
    if state is not None:
        return done(state)
    return Response(accepted, status_code=202)


@post("/pause", status_code=202, operation_id="pauseSandbox", summary="Freeze a sandbox", responses=DONE)
async def pause(
    request: Asked, desk: TheDesk, found: Found, wait: Wait = 0, idempotency_key: Key = None
) -> Response[Accepted]:
    """Its processes stay where they are, and use no processor."""
    return await moved(desk, request.user, found, orders.PauseSandbox(), {Status.PAUSED}, wait, idempotency_key)


@post("/resume", status_code=202, operation_id="resumeSandbox", summary="Let a frozen sandbox go on", responses=DONE)
async def resume(
    request: Asked, desk: TheDesk, found: Found, wait: Wait = 0, idempotency_key: Key = None
) -> Response[Accepted]:
    return await moved(desk, request.user, found, orders.ResumeSandbox(), {Status.RUNNING}, wait, idempotency_key)


@post("/stop", status_code=202, operation_id="stopSandbox", summary="Stop a sandbox", responses=DONE)
async def stop(
    request: Asked, desk: TheDesk, found: Found, data: JSONBody[Stop], wait: Wait = 0, idempotency_key: Key = None
) -> Response[Accepted]:
    """Its processes end; its workspace stays."""
    order = orders.StopSandbox(grace_ms=data.grace_ms, reason=data.reason)
    return await moved(desk, request.user, found, order, ENDED, wait, idempotency_key)


@post("/start", status_code=202, operation_id="startSandbox", summary="Start a stopped sandbox", responses=DONE)
async def start(
    request: Asked, desk: TheDesk, found: Found, wait: Wait = 0, idempotency_key: Key = None
) -> Response[Accepted]:
    """Its workspace is as it was."""
    return await moved(desk, request.user, found, orders.StartSandbox(), {Status.RUNNING}, wait, idempotency_key)


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[pause, resume, stop, start], tags=["sandboxes"])
