"""Orders that come over HTTP: published as whoever asked, and followed for as long as they want to wait."""

from collections.abc import Sequence

import msgspec
from litestar import Response

from contracts import codec, subjects
from contracts.access import Principal
from contracts.errors import SandboxInvalidState, Unavailable
from contracts.http.sandboxes import Accepted
from contracts.message import Order
from contracts.queries import LoggedEvent
from contracts.state import Status
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.imported import ImportedSandbox
from infra.client.orders import publish, raise_if_given_up
from infra.client.sandbox import Sandbox
from services.gateway.desk import Desk
from services.gateway.patience import patience
from services.gateway.routes.naming import order_id
from services.gateway.routes.waiting import done, within


def require_life(sandbox: Sandbox) -> None:
    """Raises `SandboxInvalidState` for one that can only be read."""
    if isinstance(sandbox, ImportedSandbox):
        raise SandboxInvalidState(f"sandbox {sandbox.id!r} was imported from another Cloche: it can only be read")
    if sandbox.state.status == Status.REMOVED:
        raise SandboxInvalidState(f"sandbox {sandbox.id!r} is removed: its record can be read", status="removed")


async def ordered(desk: Desk, node: str, sandbox: str, order: Order, command: str) -> None:
    """Returns when it is durable. Raises `Unavailable`."""
    async with patience("the bus does not answer: whether the order stands is not known, so ask again by the same key"):
        await publish(desk.bus, node, sandbox, order, id=command)


async def send(desk: Desk, principal: Principal, sandbox: Sandbox, order: Order, key: str | None = None) -> Accepted:
    """Returns when it is durable. Raises `SandboxInvalidState`, `Unavailable`."""
    require_life(sandbox)
    name = order_id(principal, key, f"{type(order).__name__}\0{sandbox.id}")
    await ordered(desk, sandbox.state.node, sandbox.id, order, name)
    return Accepted(sandbox=sandbox.id, command=name)


async def send_and_hear(
    desk: Desk,
    principal: Principal,
    sandbox: Sandbox,
    order: Order,
    heard_on: Sequence[str],
    *,
    wait: float,
    key: str | None = None,
) -> Response[Accepted]:
    """200 with the first event that comes of it, of those that are heard on these subjects; else 202.

    Raises the reason when it was given up.
    """
    # What was asked for before with the same key was answered before.
    start = sandbox.state.first_sequence if key or not wait else (await reader.bounds(desk.bus)).last + 1
    accepted = await send(desk, principal, sandbox, order, key)
    heard = await within(wait, told(desk.bus, sandbox.id, accepted.command, heard_on, start))
    if heard is not None:
        return done(heard)
    return Response(accepted, status_code=202)


async def told(bus: Bus, sandbox: str, command: str, heard_on: Sequence[str], start: int) -> LoggedEvent:
    """Raises the reason when the order was given up."""
    letters = subjects.events_of(sandbox, family=subjects.DEAD_LETTER, scope=command)
    async for entry in reader.read(bus, [*heard_on, *letters], start, follow=True):
        head = codec.decode_head(entry.data)
        raise_if_given_up(head, command)
        if head.correlationid == command:
            return LoggedEvent(sequence=entry.seq, event=msgspec.Raw(entry.data))
    raise Unavailable("the log has ended")
