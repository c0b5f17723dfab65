"""Figures that have to be asked for: rarely, and only in a process whose figures somebody reads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from contracts.errors import ClocheError

logger = logging.getLogger(__name__)

EVERY_S = 15.0
"""As often as Prometheus looks, by its own default a little more."""

_is_read = False


def switch_on() -> None:
    """Somebody reads. Before the services of this process are started."""
    global _is_read
    _is_read = True


async def poll(ask: Callable[[], Awaitable[None]]) -> None:
    """Until cancelled, or at once where nobody reads. What cannot be told now is told next time."""
    while _is_read:
        try:
            await ask()
        except ClocheError as error:
            logger.debug("a figure is not known now: %s", error.message)
        await asyncio.sleep(EVERY_S)
