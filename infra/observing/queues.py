"""How many orders wait for a consumer, and for how long, as the server has it."""

from collections.abc import Iterable

from contracts.streams import ConsumerSpec
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.server_time import server_now
from infra.observing import catalogue
from infra.observing.polling import poll
from infra.observing.within import within


async def watch_queue(bus: Bus, spec: ConsumerSpec) -> None:
    """For ever, until cancelled."""

    async def look() -> None:
        name = within(bus, spec.durable)
        info = await bus.api(f"CONSUMER.INFO.{spec.stream}.{spec.durable}")
        catalogue.queue_depth.set(int(info.get("num_pending", 0)), name)
        catalogue.queue_unsettled.set(int(info.get("num_ack_pending", 0)), name)

    await poll(look)


async def watch_ages(bus: Bus, specs: Iterable[ConsumerSpec]) -> None:
    """For ever, until cancelled. By the queue itself, which an order leaves when it is settled: so what nobody takes
    counts as well as what hangs, and whoever should take it need not be there. Needs the right to read orders.
    """
    watched = tuple(specs)

    async def look() -> None:
        for spec in watched:
            pages = [await page.fetch(bus, each, 1, limit=1, stream=spec.stream) for each in spec.filters]
            stored = [entry.time for found in pages for entry in found.entries]
            age_s = (await server_now(bus, spec.stream) - min(stored)).total_seconds() if stored else 0.0
            catalogue.queue_oldest.set(max(age_s, 0.0), within(bus, spec.durable))

    await poll(look)
