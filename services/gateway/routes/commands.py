"""Commands: run, looked at, typed into, signalled."""

import contextlib

from litestar import Response, Router, get, post
from litestar.params import JSONBody

from contracts import subjects
from contracts.commands.command import InputCommand, ResizeCommand, RunCommand, SignalCommand
from contracts.errors import NotFound
from contracts.http.commands import CommandAccepted, CommandDetail, CommandResult, Input, Resize, Signal
from contracts.http.sandboxes import Accepted
from infra.bus import reader
from infra.bus.live import Live
from infra.log.choosing import view_of
from services.gateway.routes.answers import answer
from services.gateway.routes.naming import order_id
from services.gateway.routes.orders import ordered, require_life, send
from services.gateway.routes.params import Asked, ExecParam, Found, Key, TheDesk
from services.gateway.routes.ran import ended, on_record, refuse_if_at_fault, run_to_end
from services.gateway.routes.waiting import Wait, done, within


@post(
    "/",
    status_code=202,
    operation_id="runCommand",
    summary="Run a command",
    responses={200: answer(CommandResult, "It has ended.")},
)
async def run(
    request: Asked,
    desk: TheDesk,
    found: Found,
    data: JSONBody[RunCommand],
    wait: Wait = 0,
    idempotency_key: Key = None,
) -> Response[CommandAccepted]:
    """200 with its result and what it wrote, if it ends within `wait` seconds; else 202, and it goes on.

    A command that fails is a result. One that the sandbox is in no state to run is an error.
    """
    require_life(found)
    exec_id = order_id(request.user, idempotency_key, f"run\0{found.id}")
    scope = subjects.events_of(found.id, scope=exec_id)
    async with contextlib.AsyncExitStack() as held:
        tap = await held.enter_async_context(Live.open(desk.bus, scope)) if wait else None
        await ordered(desk, found.state.node, found.id, data, exec_id)
        if tap is not None:
            # A new id has no past; one of an idempotency key may.
            entries = reader.follow_tap(
                desk.bus, scope, tap, found.state.first_sequence, complete=idempotency_key is None
            )
            result = await within(wait, run_to_end(entries, found.id, exec_id))
            if result is not None:
                refuse_if_at_fault(result)
                return done(result)
    place = {"location": f"/api/v1/sandboxes/{found.id}/commands/{exec_id}"}
    accepted = CommandAccepted(sandbox=found.id, command=exec_id, exec=exec_id)
    return Response(accepted, status_code=202, headers=place)


@get("/{exec_id:str}", operation_id="getCommand", summary="Look at a command")
async def command(desk: TheDesk, found: Found, exec_id: ExecParam, wait: Wait = 0) -> CommandDetail:
    """As the log has it; with `wait`, once it has ended, or after so many seconds."""
    view = await view_of(desk.bus, found.id)
    detail = await on_record(view, found.id, exec_id)
    if detail is None or detail.outcome is None:
        await within(wait, ended(desk.bus, found, exec_id))
        detail = await on_record(view, found.id, exec_id) if wait else detail
    if detail is None:
        raise NotFound(f"the log knows no command {exec_id!r} in sandbox {found.id!r}; one just asked for may follow")
    return detail


@post("/{exec_id:str}/input", status_code=202, operation_id="typeIntoCommand", summary="Write to a command's stdin")
async def type_into(
    request: Asked,
    desk: TheDesk,
    found: Found,
    exec_id: ExecParam,
    data: JSONBody[Input],
    idempotency_key: Key = None,
) -> Accepted:
    order = InputCommand(exec=exec_id, data=data.data, encoding=data.encoding, offset=data.offset, eof=data.eof)
    return await send(desk, request.user, found, order, idempotency_key)


@post("/{exec_id:str}/signal", status_code=202, operation_id="signalCommand", summary="Signal or cancel a command")
async def signal(
    request: Asked,
    desk: TheDesk,
    found: Found,
    exec_id: ExecParam,
    data: JSONBody[Signal],
    idempotency_key: Key = None,
) -> Accepted:
    """To its whole tree of processes, unless `scope` says otherwise. With `cancel` it ends."""
    order = SignalCommand(
        exec=exec_id,
        signal=data.signal,
        scope=data.scope,
        cancel=data.cancel,
        grace_ms=data.grace_ms,
        reason=data.reason,
    )
    return await send(desk, request.user, found, order, idempotency_key)


@post("/{exec_id:str}/resize", status_code=202, operation_id="resizeCommand", summary="Resize a command's terminal")
async def resize(
    request: Asked,
    desk: TheDesk,
    found: Found,
    exec_id: ExecParam,
    data: JSONBody[Resize],
    idempotency_key: Key = None,
) -> Accepted:
    order = ResizeCommand(exec=exec_id, rows=data.rows, cols=data.cols)
    return await send(desk, request.user, found, order, idempotency_key)


ROUTER = Router(
    "/sandboxes/{sandbox_id:str}/commands",
    route_handlers=[run, command, type_into, signal, resize],
    tags=["commands"],
)
