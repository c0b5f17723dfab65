"""The newest manifest of a workspace in a log that forgets: once it is forgotten, nothing names what did not change."""

import asyncio
import time

from contracts.errors import Unavailable
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import FIRST_PAUSE_S
from infra.bus.reader import Bounds
from infra.bus.wearing import is_worn

LOOKS = 3600
"""At the log, at most, in the time of one manifest: one a second by default."""
IDLE_LOOKS = 60


class Footing:
    def __init__(self, bus: Bus, manifest_s: float) -> None:
        self._bus = bus
        self._manifest_s = manifest_s
        self._sequence = 0
        self._told_at = self._looked_at = time.monotonic()

    def stands_at(self, sequence: int) -> None:
        """The newest manifest was told there, now."""
        self._sequence = sequence
        self._told_at = time.monotonic()

    def due(self) -> float:
        """When to look even if nothing changes, by the monotonic clock."""
        return self._looked_at + self._manifest_s / IDLE_LOOKS

    async def is_worn(self, *, changed: bool) -> bool:
        """A manifest should be told: for its age if anything has changed, or since the log is about to forget it."""
        now = time.monotonic()
        if changed and now - self._told_at >= self._manifest_s:
            return True
        if now - self._looked_at < self._manifest_s / LOOKS:
            return False
        self._looked_at = now
        return is_worn(self._sequence, await self._bounds())

    async def is_forgotten(self) -> bool:
        """The log has lost it: since then a sweep may have taken whatever only it had named."""
        return 0 < self._sequence < (await self._bounds()).first

    async def _bounds(self) -> Bounds:
        while True:
            await self._bus.wait_connected()
            try:
                return await reader.bounds(self._bus)
            except Unavailable:
                await asyncio.sleep(FIRST_PAUSE_S)
