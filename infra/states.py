"""The state of sandboxes as their lifecycle tells it, also where the log has forgotten how they began.

A log with limits forgets by age and size, and a sandbox may outlive it. The read model in `cloche_sandboxes` is a fold
of everything that there ever was, so what the log still has goes on from there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Invalid, Unavailable
from contracts.state import SandboxState, Sequenced, Status, fold
from contracts.streams import SANDBOXES_BUCKET
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.kv import Bucket

PAUSE_S = 0.2
T = TypeVar("T")


async def state_of(bus: Bus, sandbox: str) -> SandboxState | None:
    """None for a sandbox that never was, or is forgotten altogether. Waits out lost connections."""
    entries = reader.read(bus, [subjects.lifecycle(sandbox)], 1, follow=False)
    events = [Sequenced(entry.seq, codec.decode_head(entry.data)) async for entry in entries]
    state = fold(events)
    if state is not None or not await has_forgotten(bus):
        return state
    raw = await _patiently(bus, lambda: Bucket(bus, SANDBOXES_BUCKET).get(sandbox))
    remembered = None if raw is None else _read(raw)
    if remembered is None or (state := fold(events, remembered)) is None:
        return None
    # What the next event has to expect is what the log still has.
    return replace(state, lifecycle_sequence=events[-1].sequence if events else 0)


async def forgotten_states(bus: Bus) -> list[SandboxState]:
    """Of all sandboxes that are not removed and whose beginning the log may have forgotten."""
    if not await has_forgotten(bus):
        return []
    first = (await _patiently(bus, lambda: reader.bounds(bus))).first
    stored = await _patiently(bus, lambda: Bucket(bus, SANDBOXES_BUCKET).all())
    states = [_read(raw) for raw in stored.values()]
    return [each for each in states if each and each.first_sequence < first and each.status != Status.REMOVED]


async def has_forgotten(bus: Bus) -> bool:
    """Whether the log has begun to forget at all."""
    return (await _patiently(bus, lambda: reader.bounds(bus))).first > 1


def _read(raw: bytes) -> SandboxState | None:
    """None for what is no state, as the cursor that lies among them."""
    try:
        state: SandboxState = codec.decode(raw, SandboxState)
    except Invalid:
        return None
    return state


async def _patiently(bus: Bus, call: Callable[[], Awaitable[T]]) -> T:
    while True:
        await bus.wait_connected()
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(PAUSE_S)
