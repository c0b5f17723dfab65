"""The spawner's orders, by FastStream: human rates."""

from contracts.streams import create_consumer, spawner_consumer
from infra.bus.broker import BusBroker, take
from infra.journal import Journal
from services.spawner.handlers import Spawner

WORKERS = 16
"""Orders in hand at a time: one that waits for a slow stop must not hold up the others."""


def add_routes(broker: BusBroker, spawner: Spawner, journal: Journal) -> None:
    for spec in (create_consumer(), spawner_consumer(journal.node)):
        for _ in range(WORKERS):
            take(broker, spec, spawner.handle, journal.dead_letter)
