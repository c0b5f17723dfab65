"""Points to come back to: snapshots, and sandboxes that begin where others were."""

import msgspec
from litestar import Response, Router, post
from litestar.params import JSONBody

from contracts import codec, subjects
from contracts.commands.sandbox import ForkSandbox, SnapshotSandbox
from contracts.errors import SandboxInvalidState, Unavailable
from contracts.http.moments import read_moment
from contracts.http.sandboxes import Accepted, NewFork
from contracts.queries import LoggedEvent
from contracts.state import SandboxState, Status
from infra.bus import reader
from infra.client.forking import brought_up
from infra.client.imported import ImportedSandbox
from infra.client.sandbox import Sandbox
from infra.moments import sequence_at
from infra.states import state_of
from services.gateway.patience import patience
from services.gateway.routes import naming
from services.gateway.routes.answers import answer
from services.gateway.routes.made import made
from services.gateway.routes.orders import ordered, send_and_hear
from services.gateway.routes.params import Asked, Found, Key, TheDesk
from services.gateway.routes.scoping import in_scope
from services.gateway.routes.waiting import Wait, within

AT_REST = frozenset({Status.STOPPED, Status.FAILED, Status.REMOVED})
"""All of their files is told already."""


@post(
    "/snapshot",
    status_code=202,
    operation_id="snapshotSandbox",
    summary="Name a sandbox's files as they are now",
    responses={200: answer(LoggedEvent, "Its `sandbox.snapshotted`.")},
)
async def snapshot(
    request: Asked,
    desk: TheDesk,
    found: Found,
    data: JSONBody[SnapshotSandbox],
    wait: Wait = 0,
    idempotency_key: Key = None,
) -> Response[Accepted]:
    """A point to come back to, or to fork from."""
    heard_on = subjects.events_of(found.id, family="sandbox", kind="snapshotted")
    return await send_and_hear(desk, request.user, found, data, heard_on, wait=wait, key=idempotency_key)


@post(
    "/fork",
    status_code=202,
    operation_id="forkSandbox",
    summary="Make a sandbox that begins as this one was",
    responses={201: answer(SandboxState, "It runs.")},
)
async def fork(
    request: Asked,
    desk: TheDesk,
    found: Found,
    data: JSONBody[NewFork],
    wait: Wait = 0,
    idempotency_key: Key = None,
) -> Response[Accepted]:
    """Also of one that is stopped or removed, which is left as it is. 201 as for `POST /sandboxes`."""
    if isinstance(found, ImportedSandbox):
        raise SandboxInvalidState(f"sandbox {found.id!r} was imported from another Cloche: it can only be read")
    key = idempotency_key and f"fork\0{found.id}\0{idempotency_key}"
    new = data.id or naming.sandbox_id(request.user, key, desk.beside(found.id))
    desk.cloche.require_beside(new, found.id)
    spec = await in_scope(desk, request.user, new, data.spec, found.state.spec)
    command = naming.order_id(request.user, idempotency_key, f"fork\0{found.id}\0{new}")
    head = (await reader.bounds(desk.bus)).last
    async with patience():
        known = await state_of(desk.bus, new)
    if known is None:
        at = await (
            _now(found, head) if data.at is None else sequence_at(desk.bus, found.id, read_moment(str(data.at)))
        )
        order = ForkSandbox(fork=new, sequence=at, spec=msgspec.Raw(codec.encode(spec)))
        await ordered(desk, subjects.ANY_NODE, found.id, order, command)
    elif known.requested_by != command:
        raise SandboxInvalidState(f"there is a sandbox {new!r} already")
    start = head + 1 if known is None and idempotency_key is None else found.state.first_sequence
    return made(new, command, await within(wait, brought_up(desk.bus, found.id, new, command, start)))


async def _now(found: Sandbox, head: int) -> int:
    """A sequence at which the log tells of its files as they are; the head, where nobody can look at them."""
    if found.state.status in AT_REST:
        return head
    try:
        return max(head, (await found.flush()).sequence)
    except (SandboxInvalidState, Unavailable):
        return head


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[snapshot, fork], tags=["sandboxes"])
