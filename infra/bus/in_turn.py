"""What many ask for at the same time, and one of them looks up."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from contracts.errors import Unavailable
from infra.bus.connection import Bus

FAILED_FOR_S = 1.0
"""Whoever waited for his turn meanwhile is told so, too, and need not wait for a time-out of his own."""


class InTurn:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._failed = ""
        self._failed_until = 0.0
        self._epoch = 0

    @contextlib.asynccontextmanager
    async def turn(self, bus: Bus) -> AsyncIterator[None]:
        """One at a time. Raises `Unavailable` at once if the last turn did a moment ago, on the same connection."""
        async with self._lock:
            if self._epoch == bus.epoch and time.monotonic() < self._failed_until:
                raise Unavailable(self._failed)
            try:
                yield
            except Unavailable as error:
                self._failed, self._epoch = error.message, bus.epoch
                self._failed_until = time.monotonic() + FAILED_FOR_S
                raise
