"""How much the streams hold, as the server counts it."""

from contracts.streams import ARCHIVE_STREAM, BLOBS_BUCKET, LOG_STREAM, VITALS_STREAM
from infra.bus.connection import Bus
from infra.observing import catalogue
from infra.observing.polling import poll
from infra.observing.within import within

STREAMS = (LOG_STREAM, VITALS_STREAM, ARCHIVE_STREAM, f"OBJ_{BLOBS_BUCKET}")


async def watch_store(bus: Bus) -> None:
    """For ever, until cancelled."""

    async def look() -> None:
        for stream in STREAMS:
            info = await bus.api(f"STREAM.INFO.{stream}")
            name = within(bus, stream)
            catalogue.store_bytes.set(info["state"]["bytes"], name)
            catalogue.store_messages.set(info["state"]["messages"], name)
            catalogue.store_limit.set(max(info["config"].get("max_bytes", 0), 0), name)

    await poll(look)
