"""Pausing a container, never with a process in it that only begins, and ending that."""

import asyncio

from infra.docker.containers import Containers
from infra.docker.errors import CONFLICT, Refused
from infra.docker.stuck import is_beginning, set_frozen

ATTEMPTS, LOOKS_AFTER, AGAIN_S = 40, 6, 0.05


async def pause_container(containers: Containers, container: str) -> None:
    """What is frozen half way would hold the engine's lock for good. Raises `Refused`, `Unavailable`."""
    await _nothing_begins(container)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await containers.pause(container)
            break
        except Refused:
            if attempt == ATTEMPTS:
                raise
        await asyncio.sleep(AGAIN_S)
    for _ in range(LOOKS_AFTER):
        if await asyncio.to_thread(is_beginning, container):
            # The engine has its pause; what began in that moment goes on to where it can be frozen.
            await asyncio.to_thread(set_frozen, container, frozen=False)
            await _nothing_begins(container)
            await asyncio.to_thread(set_frozen, container, frozen=True)
        await asyncio.sleep(AGAIN_S)


async def resume_container(containers: Containers, container: str) -> None:
    """Raises `Refused`, `Unavailable`.

    An engine that was slow may have been helped out of its pause without noticing, see `infra.docker.stuck`. It ends
    one only where there is one, so there is one again for that moment.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            await containers.unpause(container)
            break
        except Refused as error:
            if error.status == CONFLICT or attempt == ATTEMPTS:
                raise
        await asyncio.to_thread(set_frozen, container, frozen=True)
        await asyncio.sleep(AGAIN_S)


async def _nothing_begins(container: str) -> None:
    for _ in range(ATTEMPTS):
        if not await asyncio.to_thread(is_beginning, container):
            return
        await asyncio.sleep(AGAIN_S)
