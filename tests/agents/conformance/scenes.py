"""Following runs in tests: by the log, never by the clock."""

import asyncio
import collections
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

from contracts.events import agent as facts
from contracts.message import Fact
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from tests.agents.rig import Rig, Turn

F = TypeVar("F", bound=Fact)
DEADLINE_S = 90.0


def fresh_marker() -> str:
    return f"scene-{secrets.token_hex(6)}"


async def begin(rig: Rig, sandbox: Sandbox, *turns: Turn, marker: str | None = None, **more: Any) -> AgentRun:
    return await sandbox.agent.start(**{**rig.play(marker or fresh_marker(), *turns), **more})


async def until(run: AgentRun, kind: type[F], condition: Callable[[F], bool] = lambda _: True, *, count: int = 1) -> F:
    """The fact, once the log has so many of them. Fails when the run is over before that."""
    async with asyncio.timeout(DEADLINE_S):
        async for event in run.events(follow=True):
            if isinstance(event.fact, kind) and condition(event.fact):
                count -= 1
                if not count:
                    return event.fact
            if isinstance(event.fact, facts.AgentCompleted) or (
                isinstance(event.fact, facts.AgentError) and event.fact.final
            ):
                break
    raise AssertionError(f"no {kind.__name__} came: {await story(run)}")


async def told(run: AgentRun, kind: type[F]) -> list[F]:
    return [event.fact async for event in run.events() if isinstance(event.fact, kind)]


async def story(run: AgentRun) -> list[Fact]:
    return [event.fact async for event in run.events() if event.fact is not None]


async def shape(run: AgentRun) -> collections.Counter[str]:
    """How often each thing was told, parts of messages and metrics apart: how those are cut depends on the moment."""
    counted: collections.Counter[str] = collections.Counter()
    async for event in run.events():
        if not getattr(event.fact, "partial", False):
            counted[event.head.type] += 1
    for uneven in ("agent.metrics", "agent.transcript", "agent.thinking"):
        counted.pop(uneven, None)
    return counted


async def has_file(sandbox: Sandbox, name: str) -> None:
    """Returns once it is in the workspace."""
    async with asyncio.timeout(DEADLINE_S):
        while (await sandbox.run(["test", "-e", name])).exit_code != 0:
            await asyncio.sleep(0.02)
