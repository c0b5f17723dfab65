"""The read model as one thing: followed, copied into its bucket, looked after."""

import asyncio

from contracts.streams import SANDBOXES_BUCKET
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.observing.lag import watch_lag
from services.replay import loop
from services.replay.healing import Healing
from services.replay.mirror import Mirror
from services.replay.projection import Projection, filters


class ReadModel:
    def __init__(self, bus: Bus, *, look_s: float) -> None:
        changed = asyncio.Event()
        self._bus = bus
        self._look_s = look_s
        self._changed = changed
        self.bucket = Bucket(bus, SANDBOXES_BUCKET)
        self.projection = Projection()
        self._mirror = Mirror(self.bucket, self.projection, changed)
        self.healing = Healing(bus, self.projection, self._mirror, changed)
        self._start = 1

    async def restore(self) -> None:
        """What was known before. Raises `Unavailable`."""

        async def last() -> int:
            return (await reader.bounds(self._bus)).last

        cursor = await self._mirror.restore(last)
        self._start = cursor.sequence + 1
        self.projection.applied, self.projection.stored_at = cursor.sequence, cursor.stored_at
        read = await page.fetch_one(self._bus, cursor.sequence) if cursor.stored_at else None
        if read is not None and read.stored_at != cursor.stored_at:
            self.healing.doubt()

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.follow(self._bus, self.projection, self._start, self._changed, self.healing.doubt))
            tasks.create_task(self._mirror.run())
            tasks.create_task(watch_lag("replay", self._bus, filters(), lambda: self.projection.applied))
            tasks.create_task(self.healing.run(self._look_s))
