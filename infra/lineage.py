"""Where sandboxes come from, and what they were at a sequence of their log. Imported ones too."""

from contracts import codec, subjects
from contracts.events.agent import AgentStarted
from contracts.spec import ForkOf
from contracts.state import SandboxState, Sequenced, fold
from infra.bus.connection import Bus
from infra.log.choosing import view_of
from infra.states import state_of

LONGEST_LINE = 1000
"""Forks of forks."""


async def lifecycle_at(bus: Bus, sandbox: str, sequence: int) -> SandboxState | None:
    """The state as far as its lifecycle told by then; None where it was not yet. Raises `Unavailable`, `Invalid`.

    Where the log has forgotten how it began, as it is now.
    """
    view = await view_of(bus, sandbox)
    entries = view.read([subjects.lifecycle(sandbox)], 1, end=sequence)
    state = fold([Sequenced(entry.seq, codec.decode_head(entry.data)) async for entry in entries])
    if state is not None or (await view.bounds()).first <= 1:
        return state
    remembered = await state_of(bus, sandbox)
    return remembered if remembered is not None and remembered.first_sequence <= sequence else None


async def line_of(bus: Bus, sandbox: str) -> list[ForkOf]:
    """What it is a fork of, and what that was a fork of: the nearest first. Raises `Unavailable`, `Invalid`."""
    line: list[ForkOf] = []
    end = (await (await view_of(bus, sandbox)).bounds()).last
    while len(line) < LONGEST_LINE:
        state = await lifecycle_at(bus, sandbox, end)
        source = None if state is None else state.spec.workspace.source
        if not isinstance(source, ForkOf):
            break
        line.append(source)
        sandbox, end = source.sandbox, source.sequence
    return line


async def last_run(bus: Bus, origin: ForkOf) -> AgentStarted | None:
    """The newest run of an agent that a fork can go on from, also of what its origin was a fork of.

    Raises `Unavailable`, `Invalid`.
    """
    for _ in range(LONGEST_LINE):
        view = await view_of(bus, origin.sandbox)
        begun = subjects.events_of(origin.sandbox, family="agent", kind="started", scope="*")
        newest = None
        async for entry in view.read(begun, 1, end=origin.sequence):
            newest = entry
        fact = None if newest is None else codec.decode_fact(codec.decode_head(newest.data))
        if isinstance(fact, AgentStarted):
            return fact
        state = await lifecycle_at(bus, origin.sandbox, origin.sequence)
        source = None if state is None else state.spec.workspace.source
        if not isinstance(source, ForkOf):
            return None
        origin = source
    return None
