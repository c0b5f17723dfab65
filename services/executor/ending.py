"""Ends commands: at their time limit, or because somebody asked. The reason is noted in the record first."""

import asyncio
import logging
import signal

from contracts.errors import Conflict
from infra.keeper.client import KeeperClient

TIME_LIMIT_GRACE_S = 2.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0

logger = logging.getLogger(__name__)


async def kill(keeper: KeeperClient, key: str, *, after_s: float) -> None:
    """SIGKILL to the whole process tree, if it is still there by then.

    Again and again where the sandbox does not answer: one that is paused would go on without a limit.
    """
    await asyncio.sleep(after_s)
    pause = FIRST_PAUSE_S
    while not await ask_to_end(keeper, key, signal.SIGKILL):
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)


async def at_time_limit(keeper: KeeperClient, key: str, left_s: float, note: str) -> None:
    await asyncio.sleep(max(0.0, left_s))
    await ask_to_end(keeper, key, signal.SIGTERM, note)
    await kill(keeper, key, after_s=TIME_LIMIT_GRACE_S)


async def ask_to_end(
    keeper: KeeperClient, key: str, signum: int, note: str | None = None, order: str | None = None
) -> bool:
    """False where the sandbox does not answer now; the note is in the record all the same."""
    try:
        await keeper.signal(key, signum, note=note, order=order)
    except Conflict as error:
        logger.info("%s does not hear signal %d: %s", key, signum, error.message)
        return False
    return True
