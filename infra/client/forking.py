"""Sandboxes that begin as others were."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from contracts import codec, subjects
from contracts.commands.sandbox import ForkSandbox
from contracts.errors import Invalid, SandboxNotFound, from_failure
from contracts.ids import is_token
from contracts.message import EventHead
from contracts.spec import SandboxSpec
from contracts.state import SandboxState, Status, apply
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.hearing import hearing
from infra.client.orders import publish, raise_if_given_up
from infra.client.sandbox import Sandbox
from infra.ids import new_id
from infra.moments import Moment, sequence_at


async def fork(
    bus: Bus,
    sandbox: str,
    at: Moment,
    overrides: SandboxSpec | dict[str, Any] | None,
    fork_id: str | None,
    on_progress: Callable[[str], None] | None,
) -> Sandbox:
    """See `Cloche.fork`."""
    made = fork_id or new_id("sb")
    for name in (sandbox, made):
        if not is_token(name):
            raise Invalid(f"{name!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
    order = ForkSandbox(
        fork=made,
        sequence=await sequence_at(bus, sandbox, at),
        spec=msgspec.Raw(codec.encode(overrides or {})),
    )
    start = (await reader.bounds(bus)).last + 1
    async with hearing(bus, made, on_progress):
        command = await publish(bus, subjects.ANY_NODE, sandbox, order)
        return Sandbox(bus, await brought_up(bus, sandbox, made, command, start))


async def brought_up(bus: Bus, origin: str, sandbox: str, command: str, start: int) -> SandboxState:
    state: SandboxState | None = None
    async for sequence, head in _told(bus, origin, sandbox, command, start):
        raise_if_given_up(head, command)
        state = apply(state, sequence, head)
        if state is None or state.requested_by != command:
            continue
        if state.status == Status.FAILED and state.error is not None:
            raise from_failure(state.error)
        if state.status == Status.RUNNING:
            return state
    raise SandboxNotFound(f"there is no sandbox {sandbox!r}")


async def _told(bus: Bus, origin: str, sandbox: str, command: str, start: int) -> AsyncIterator[tuple[int, EventHead]]:
    """A refusal is told of the origin: there is no other sandbox then."""
    refusals = subjects.events_of(origin, family=subjects.DEAD_LETTER, scope=command)
    async for entry in reader.read(bus, [subjects.lifecycle(sandbox), *refusals], start, follow=True):
        yield entry.seq, codec.decode_head(entry.data)
