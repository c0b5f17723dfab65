"""The spawner's orders: those for this node by FastStream, human rates; those for any node by the shared queue."""

from collections.abc import Callable

from contracts import subjects
from contracts.nodes import BUSY
from contracts.streams import create_consumer, spawner_consumer
from infra.bus import consumer
from infra.bus.broker import BusBroker, answer, take
from infra.bus.connection import Bus
from infra.bus.settle import Handler
from infra.journal import Journal
from services.spawner.handlers import Spawner
from services.spawner.worktrees import Worktrees

WORKERS = 16
"""Orders in hand at a time: one that waits for a slow stop must not hold up the others."""
GITS = 4
"""Requests about worktrees at a time."""
RESTARTS = 2
"""A node that is started again has forgotten for how long an offer has waited, and waits as long again."""
SLACK_S = 60.0


def add_routes(broker: BusBroker, spawner: Spawner, worktrees: Worktrees, journal: Journal) -> None:
    for _ in range(WORKERS):
        take(broker, spawner_consumer(journal.node), spawner.handle, journal.dead_letter)
    answer(broker, subjects.rpc_filter("git", journal.node), worktrees.answer, queue="spawner", concurrency=GITS)


async def take_offers(
    bus: Bus, handle: Handler, journal: Journal, *, hold_back_s: Callable[[], float], patience_s: float
) -> None:
    """For ever: what any node may take, each for `patience_s` as `contracts.nodes.place` says."""
    await consumer.run(
        bus,
        create_consumer(),
        handle,
        dead_letter=journal.dead_letter,
        concurrency=WORKERS,
        hold_back_s=hold_back_s,
        waits_s=patience_s * BUSY * RESTARTS + SLACK_S,
    )
