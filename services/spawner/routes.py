"""The spawner's orders, by FastStream: human rates."""

from contracts import subjects
from contracts.streams import create_consumer, spawner_consumer
from infra.bus.broker import BusBroker, answer, take
from infra.journal import Journal
from services.spawner.handlers import Spawner
from services.spawner.worktrees import Worktrees

WORKERS = 16
"""Orders in hand at a time: one that waits for a slow stop must not hold up the others."""


GITS = 4
"""Requests about worktrees at a time."""


def add_routes(broker: BusBroker, spawner: Spawner, worktrees: Worktrees, journal: Journal) -> None:
    for spec in (create_consumer(), spawner_consumer(journal.node)):
        for _ in range(WORKERS):
            take(broker, spec, spawner.handle, journal.dead_letter)
    answer(broker, subjects.rpc_filter("git", journal.node), worktrees.answer, queue="spawner", concurrency=GITS)
