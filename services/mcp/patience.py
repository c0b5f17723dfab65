"""Restarts of services and of the server are waited out, within bounds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from contracts.errors import Unavailable
from infra.bus.connection import Bus
from infra.bus.errors import NobodyAnswers

PATIENCE_S = 60.0
ATTEMPT_S = 30.0
"""For one answer: whoever was to give it may have been killed meanwhile."""
PAUSE_S = 0.2

Result = TypeVar("Result")


async def patiently(bus: Bus, ask: Callable[[], Awaitable[Result]], *, attempt_s: float = ATTEMPT_S) -> Result:
    """For what may be asked as often as one likes. Raises `Unavailable` when no answer came in a minute or so."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            await connected(bus, deadline)
            async with asyncio.timeout(attempt_s):
                return await ask()
        except (Unavailable, TimeoutError) as error:
            await _pause_or_raise(deadline, error)


async def once(bus: Bus, ask: Callable[[], Awaitable[Result]]) -> Result:
    """For what changes something: asked again only while it is certain that nobody heard it.

    Raises `Unavailable` where it may or may not have been done.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        await connected(bus, deadline)
        try:
            return await ask()
        except NobodyAnswers as error:
            await _pause_or_raise(deadline, error)
        except Unavailable as error:
            raise Unavailable(f"{error.message}; it may or may not have been done: look before you repeat it") from None


async def connected(bus: Bus, deadline: float | None = None) -> None:
    """Raises `Unavailable` when there is no connection by the deadline, a minute from now unless given."""
    try:
        async with asyncio.timeout_at(deadline or asyncio.get_running_loop().time() + PATIENCE_S):
            await bus.wait_connected()
    except TimeoutError:
        raise Unavailable(f"not connected to {bus.url}") from None


async def _pause_or_raise(deadline: float, error: Exception) -> None:
    if asyncio.get_running_loop().time() + PAUSE_S >= deadline:
        raise error if isinstance(error, Unavailable) else Unavailable("no answer in time") from None
    await asyncio.sleep(PAUSE_S)
