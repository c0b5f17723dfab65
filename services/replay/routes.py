"""Replay's answers, by FastStream: human rates. Its orders, one sandbox after another."""

import asyncio
from collections.abc import Mapping

from contracts import streams, subjects
from infra.bus import consumer
from infra.bus.broker import BusBroker, answer
from infra.bus.connection import Bus
from infra.bus.settle import Handler
from infra.journal import Journal
from services.replay.handlers import Historian

QUEUE = "replay"
OF_A_KIND = 16
"""Questions that are answered at a time."""
WAITING = 4096
"""Questions that wait here, the others at the server."""
AT_ONCE = 16
"""Sandboxes whose orders are handled at a time."""


def add_routes(broker: BusBroker, historian: Historian) -> None:
    """Each kind of question has places of its own: those that take long keep no other kind waiting."""

    places = {verb: asyncio.Semaphore(OF_A_KIND) for verb in historian.verbs}
    unknown = asyncio.Semaphore(OF_A_KIND)

    async def reply(subject: str, raw: bytes) -> bytes:
        verb = subject.rpartition(".")[2]
        async with places.get(verb, unknown):
            return await historian.answer(verb, raw)

    answer(broker, subjects.state_rpc("*"), reply, queue=QUEUE, concurrency=WAITING)


async def take_orders(bus: Bus, journal: Journal, families: Mapping[str, Handler]) -> None:
    """For ever: each command to the part that its family belongs to. What none can obey is a dead letter."""

    async def handle(subject: str, raw: bytes) -> None:
        await families[subjects.parse_command(subject).family](subject, raw)

    await consumer.run(
        bus,
        streams.replay_consumer(),
        handle,
        dead_letter=journal.dead_letter,
        concurrency=AT_ONCE,
        in_order=True,
    )
