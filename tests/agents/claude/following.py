"""What a run has on record, for tests."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from contracts.message import Fact
from infra.client.agent_run import AgentRun

Kind = TypeVar("Kind", bound=Fact)
DEADLINE_S = 60.0


async def until(run: AgentRun, kind: type[Kind], when: Callable[[Kind], Any] = lambda _: True) -> Kind:
    """The first fact of that kind that it is true of. Raises `AssertionError` where the run ends without."""
    seen = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            async for event in run.events(follow=True):
                seen.append(event.fact)
                if isinstance(event.fact, kind) and when(event.fact):
                    return event.fact
    except TimeoutError:
        raise AssertionError(f"not told in time: {kind.__name__}, but {seen[-10:]}") from None
    raise AssertionError(f"the run ended without: {kind.__name__}, but {seen[-10:]}")


async def told(run: AgentRun, kind: type[Kind]) -> list[Kind]:
    return [event.fact async for event in run.events() if isinstance(event.fact, kind)]
