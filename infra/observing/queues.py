"""How many orders wait for a consumer, as the server counts them."""

from contracts.streams import ConsumerSpec
from infra.bus.connection import Bus
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
