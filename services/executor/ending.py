"""Ends commands: at their time limit, or because somebody asked. The reason is noted in the record first."""

import asyncio
import signal

from infra.keeper.client import KeeperClient

TIME_LIMIT_GRACE_S = 2.0


async def end(keeper: KeeperClient, key: str, *, note: str, first: int, grace_s: float) -> None:
    """The signal to the whole process tree, and SIGKILL after the grace if it is still there."""
    await keeper.signal(key, first, note=note)
    if first != signal.SIGKILL:
        await asyncio.sleep(grace_s)
        await kill(keeper, key)


async def kill(keeper: KeeperClient, key: str) -> None:
    await keeper.signal(key, signal.SIGKILL)


async def at_time_limit(keeper: KeeperClient, key: str, left_s: float, note: str) -> None:
    await asyncio.sleep(max(0.0, left_s))
    await end(keeper, key, note=note, first=signal.SIGTERM, grace_s=TIME_LIMIT_GRACE_S)
