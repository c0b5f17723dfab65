"""The spawner's orders: those for this node by FastStream, human rates; those for any node by the shared queue."""

from collections.abc import Callable

from contracts import subjects
from contracts.streams import create_consumer, spawner_consumer
from infra.bus import consumer
from infra.bus.broker import BusBroker, answer, take
from infra.bus.connection import Bus
from infra.journal import Journal
from services.spawner.handlers import Spawner
from services.spawner.worktrees import Worktrees

WORKERS = 16
"""Orders in hand at a time: one that waits for a slow stop must not hold up the others."""


GITS = 4
"""Requests about worktrees at a time."""


def add_routes(broker: BusBroker, spawner: Spawner, worktrees: Worktrees, journal: Journal) -> None:
    for _ in range(WORKERS):
        take(broker, spawner_consumer(journal.node), spawner.handle, journal.dead_letter)
    answer(broker, subjects.rpc_filter("git", journal.node), worktrees.answer, queue="spawner", concurrency=GITS)


async def take_offers(bus: Bus, spawner: Spawner, journal: Journal, hold_back_s: Callable[[], float]) -> None:
    """For ever: what any node may take."""
    await consumer.run(
        bus,
        create_consumer(),
        spawner.handle,
        dead_letter=journal.dead_letter,
        concurrency=WORKERS,
        hold_back_s=hold_back_s,
    )
