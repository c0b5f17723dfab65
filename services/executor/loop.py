"""The executor's loop over its queue. Plain nats-py: a command's start should not wait for a framework."""

from contracts.streams import ConsumerSpec
from infra.bus.connection import Bus
from infra.bus.consumer import run
from infra.journal import Journal
from services.executor.handlers import Executor

CONCURRENCY = 64


async def take_orders(bus: Bus, spec: ConsumerSpec, executor: Executor, journal: Journal) -> None:
    """For ever. Orders for one sandbox in their order, those of different sandboxes side by side."""
    await run(bus, spec, executor.handle, dead_letter=journal.dead_letter, concurrency=CONCURRENCY)
