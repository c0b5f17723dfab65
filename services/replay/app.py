"""Replay: the read model, and answers about the present and the past."""

import asyncio

from contracts import streams
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.bus.kv import Bucket
from infra.service import Ready
from infra.settings import Settings
from services.replay import loop
from services.replay.handlers import Historian
from services.replay.projection import Projection
from services.replay.routes import add_routes


class ReplayApp:
    name = "replay"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        async with open_as(self._settings, self.name) as bus:
            bucket = Bucket(bus, streams.SANDBOXES_BUCKET)
            projection = Projection()
            start = await loop.restore(bucket, projection)
            changed = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(loop.follow(bus, projection, start, changed))
                tasks.create_task(loop.flush(bucket, projection, changed))
                broker = make_broker(bus)
                add_routes(broker, Historian(bus, projection))
                await broker.start()
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def make_app(settings: Settings) -> ReplayApp:
    return ReplayApp(settings)
