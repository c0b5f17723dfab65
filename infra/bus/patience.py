"""Asking again until there is an answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from contracts.errors import Unavailable
from infra.bus.connection import Bus

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0

T = TypeVar("T")


async def patiently(bus: Bus, call: Callable[[Bus], Awaitable[T]]) -> T:
    """Repeat a read until it succeeds. Raises `Unavailable` only if the bus was closed."""
    pause = FIRST_PAUSE_S
    while True:
        await bus.wait_connected()
        try:
            return await call(bus)
        except Unavailable:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
