"""Ends commands: at their time limit, or because somebody asked. The reason is noted in the record first."""

import asyncio
import signal

from infra.keeper.client import KeeperClient

TIME_LIMIT_GRACE_S = 2.0


async def kill(keeper: KeeperClient, key: str, *, after_s: float) -> None:
    """SIGKILL to the whole process tree, if it is still there by then."""
    await asyncio.sleep(after_s)
    await keeper.signal(key, signal.SIGKILL)


async def at_time_limit(keeper: KeeperClient, key: str, left_s: float, note: str) -> None:
    await asyncio.sleep(max(0.0, left_s))
    await keeper.signal(key, signal.SIGTERM, note=note)
    await kill(keeper, key, after_s=TIME_LIMIT_GRACE_S)
