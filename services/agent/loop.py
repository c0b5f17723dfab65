"""The agent service's loop over its queue."""

from contracts.streams import ConsumerSpec
from infra.bus.connection import Bus
from infra.bus.consumer import run
from infra.journal import Journal
from services.agent.handlers import Orders

CONCURRENCY = 64


async def take_orders(bus: Bus, spec: ConsumerSpec, orders: Orders, journal: Journal) -> None:
    """For ever. What is said to one sandbox's agent in its order, to different ones side by side."""
    await run(bus, spec, orders.handle, dead_letter=journal.dead_letter, concurrency=CONCURRENCY, in_order=True)
