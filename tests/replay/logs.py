"""Logs for the read model: written by hand, on a real server, without the services that would write them."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from contracts import codec, folding, registry, subjects
from contracts.folding import Folded
from contracts.message import Event, Fact
from infra import clock
from infra.bus.connection import Bus
from infra.bus.publisher import append
from infra.log.live import LiveView
from services.replay.read_model import ReadModel
from tests.bus.servers import Server, until
from tests.contracts.histories import CREATED, CREATING, STARTED

UP: tuple[Fact, ...] = (CREATING, CREATED, STARTED)
_numbers = itertools.count(1)


def event_of(sandbox: str, fact: Fact) -> Event:
    return Event(
        id=f"test.{next(_numbers)}",
        source="test",
        type=registry.tag_of(fact),
        time=clock.now(),
        sandboxid=sandbox,
        data=fact,
    )


async def write(admin: Bus, sandbox: str, *facts: Fact) -> int:
    """As their writers would; returns the sequence of the last."""
    sequence = 0
    for fact in facts:
        event = event_of(sandbox, fact)
        subject = subjects.event(sandbox, event.type, registry.scope_of(fact))
        sequence = (await append(admin, subject, codec.encode(event), event.id)).seq
    return sequence


async def write_raw(admin: Bus, subject: str, raw: bytes) -> int:
    return (await append(admin, subject, raw, f"test.{next(_numbers)}")).seq


async def fold_all(bus: Bus, sandbox: str, at: int) -> Folded | None:
    """From the start, without any snapshot."""
    folded: Folded | None = None
    async for entry in LiveView(bus).read(subjects.events_of(sandbox), end=at):
        folded = folding.apply(folded, entry.seq, codec.decode_head(entry.data))
    return folded


@asynccontextmanager
async def model_on(server: Server, *, look_s: float = 3600.0) -> AsyncIterator[ReadModel]:
    """A read model that follows, as the replay service has it."""
    model = ReadModel(await server.connect("replay"), look_s=look_s)
    await model.restore()
    running = asyncio.create_task(model.run())
    try:
        yield model
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def knows(model: ReadModel, sandboxes: Sequence[str], sequence: int) -> None:
    """And its bucket says the same."""

    async def written() -> bool:
        kept = await model.bucket.all()
        known = [model.projection.get(each) for each in sandboxes]
        return model.projection.applied >= sequence and all(
            state is not None and kept.get(state.sandbox) == codec.encode(state) for state in known
        )

    await until(written)
