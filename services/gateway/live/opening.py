"""What a connection begins with: what it follows, from where, and how things stand."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from contracts.access import Principal, Scope
from contracts.errors import Invalid
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.pages import counted
from infra.client.imported import ImportedSandbox
from infra.client.sandbox import Sandbox
from services.gateway.desk import Desk
from services.gateway.live.following import Following, archived
from services.gateway.live.frames import CommandFrame, Connected, SubscribeFrame
from services.gateway.live.items import Item
from services.gateway.live.live import Live
from services.gateway.live.orders import carry_out
from services.gateway.live.selection import Selection, within
from services.gateway.live.session import CarryOut, Follow, Source
from services.gateway.live.sight import Sight
from services.gateway.patience import patience


class Opened(NamedTuple):
    connected: Connected
    source: Source
    selection: Selection
    cursor: int


async def open_sandbox(desk: Desk, live: Live, principal: Principal, sandbox: str, wanted: SubscribeFrame) -> Opened:
    """Raises `SandboxNotFound`, `Invalid` for bad filters, `Unavailable` where the bus does not answer for a while."""
    async with patience():
        found = await desk.sandbox(principal, sandbox)
        head = await _head(live, found)
        selection = await _select_of(sandbox, wanted)
        cursor = head + 1 if wanted.from_ is None else max(wanted.from_, 1)
        count = None if isinstance(found, ImportedSandbox) else await _count(live.bus, selection, cursor, head)
    source = Source(partial(_select_of, sandbox), _follow_of(live, found), orders_of(desk, principal, sandbox))
    connected = Connected(
        sandbox_id=sandbox, status=found.state.status, head_sequence=head, buffered_events_count=count
    )
    return Opened(connected, source, selection, cursor)


async def open_events(desk: Desk, live: Live, principal: Principal, wanted: SubscribeFrame) -> Opened:
    """Raises as `open_sandbox` does; `SandboxNotFound` for one that is named, and out of scope."""
    sight = Sight(live.bus, principal.scope)

    async def select(frame: SubscribeFrame) -> Selection:
        return await within(sight, frame.sandboxes, frame.types)

    def follow(selection: Selection, cursor: int) -> AsyncGenerator[list[Item], None]:
        return Following(live.bus, live.feeds, sight, selection, cursor).batches()

    async with patience():
        selection = await select(wanted)
        head = await live.pulse.head()
        cursor = head + 1 if wanted.from_ is None else max(wanted.from_, 1)
        # How much there is of what somebody cannot see is not for them to know.
        countable = selection.exact and (sight.everything or bool(selection.sandboxes))
        count = await _count(live.bus, selection, cursor, head) if countable else None
    connected = Connected(sandbox_id=None, status=None, head_sequence=head, buffered_events_count=count)
    return Opened(connected, Source(select, follow, orders_of(desk, principal, None)), selection, cursor)


async def _select_of(sandbox: str, frame: SubscribeFrame) -> Selection:
    if frame.sandboxes not in ((), (sandbox,)):
        raise Invalid(f"`sandboxes`: this connection is about {sandbox} alone; /ws/events is about many")
    return Selection((sandbox,), frame.types)


def _follow_of(live: Live, sandbox: Sandbox) -> Follow:
    def follow(selection: Selection, cursor: int) -> AsyncGenerator[list[Item], None]:
        if isinstance(sandbox, ImportedSandbox):
            return archived(sandbox.view, selection.filters, cursor)
        return Following(live.bus, live.feeds, Sight(live.bus, Scope()), selection, cursor).batches()

    return follow


def orders_of(desk: Desk, principal: Principal, sandbox: str | None) -> CarryOut:
    async def carried_out(frame: CommandFrame) -> Struct:
        named = frame.sandbox or sandbox
        if named is None:
            raise Invalid("`sandbox`: say whom this is for")
        if sandbox is not None and named != sandbox:
            raise Invalid(f"`sandbox`: this connection is about {sandbox} alone")
        return await carry_out(desk.of(named), principal, named, frame)

    return carried_out


async def _head(live: Live, sandbox: Sandbox) -> int:
    if isinstance(sandbox, ImportedSandbox):
        return (await sandbox.view.bounds()).last
    return await live.pulse.head()


async def _count(bus: Bus, selection: Selection, cursor: int, head: int) -> int:
    if cursor > head:
        return 0
    found = [await page.fetch(bus, each, cursor, limit=1) for each in selection.filters]
    return sum(counted(each.entries[0]) for each in found if each.entries)
