"""What the log says of a sandbox's health."""

import os
import signal
from pathlib import Path
from typing import Any

from contracts import codec
from contracts.events.health import HealthDied
from contracts.message import Fact
from infra.client import Sandbox
from infra.sandbox.providers import load_provider


async def next_of(sandbox: Sandbox, *types: str, after: int = 0) -> tuple[int, Fact]:
    """The first event of these types after that sequence, waited for; its sequence with it."""
    async for event in sandbox.events(follow=True, types=list(types)):
        if event.sequence > after:
            fact = codec.decode_fact(event.head)
            assert fact is not None
            return event.sequence, fact
    raise AssertionError("the log ended")


async def death_of(sandbox: Sandbox, after: int = 0) -> HealthDied:
    _, died = await next_of(sandbox, "health.died", after=after)
    assert isinstance(died, HealthDied)
    return died


async def types_of(sandbox: Sandbox, *families: str) -> list[str]:
    return [event.head.type async for event in sandbox.events(types=list(families))]


async def pid_of(data: Path, sandbox: str, tier: str = "local") -> int:
    """Its first process."""
    async with load_provider(tier, data) as provider:
        seen = await provider.inspect(sandbox)
    assert seen is not None
    assert seen.pid is not None
    return seen.pid


async def kill(data: Path, sandbox: str, tier: str = "local") -> None:
    os.kill(await pid_of(data, sandbox, tier), signal.SIGKILL)


def restart(policy: str, **more: Any) -> dict[str, Any]:
    return {"restart": {"policy": policy, **more}}
