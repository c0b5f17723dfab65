"""Ends commands: at their time limit, or because somebody asked. The reason is noted in the record first."""

import asyncio
import signal

from contracts.errors import ClocheError
from infra.keeper.client import KeeperClient
from services.executor.record import Context

TIME_LIMIT_GRACE_S = 2.0


async def end(keeper: KeeperClient, key: str, *, note: str, first: int, grace_s: float) -> None:
    """The signal to the whole process tree, and SIGKILL after the grace if it is still there."""
    await keeper.signal(key, first, note=note)
    if first == signal.SIGKILL:
        return
    await asyncio.sleep(grace_s)
    await keeper.signal(key, signal.SIGKILL)


async def at_time_limit(keeper: KeeperClient, context: Context, *, remaining_s: float, note: str) -> None:
    await asyncio.sleep(max(0.0, remaining_s))
    await end(keeper, context.key, note=note, first=signal.SIGTERM, grace_s=TIME_LIMIT_GRACE_S)


def is_over(error: ClocheError) -> bool:
    """The command ended before it could be ended."""
    return error.code in {"INVALID", "SANDBOX_NOT_FOUND"}
