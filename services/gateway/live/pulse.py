"""Where the log ends, for everybody who wants to know now and then."""

import asyncio
import time
from typing import Protocol

from contracts.errors import Unavailable
from infra.bus import reader
from infra.bus.connection import Bus

FRESH_S = 1.0
PATIENCE_S = 10.0


class Beat(Protocol):
    async def roughly(self) -> int: ...


class NoPulse:
    """Of a log that is divided: there is no one end of it."""

    async def roughly(self) -> int:
        return 0


class Pulse:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._last = 0
        self._asked_at = -FRESH_S
        self._asking = asyncio.Lock()

    async def head(self) -> int:
        """Of this moment. Raises `Unavailable` where nobody answers within a while."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._last = (await reader.patiently(self._bus, reader.bounds)).last
        except TimeoutError:
            raise Unavailable("the log does not answer") from None
        return self._last

    async def roughly(self) -> int:
        """Of about this second; while nobody answers, of when somebody last did."""
        async with self._asking:
            if self._bus.is_connected and time.monotonic() - self._asked_at >= FRESH_S:
                self._asked_at = time.monotonic()
                try:
                    self._last = (await reader.bounds(self._bus)).last
                except Unavailable:
                    return self._last
        return self._last
