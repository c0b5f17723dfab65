"""A sandbox with the small agent in it, and runs of it that are told what to do by their prompts."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from contracts.agents import ApprovalRule, Verdict
from contracts.events import agent as facts
from contracts.message import Fact
from infra.client import Cloche, Sandbox
from infra.client.agent_run import AgentRun

SOURCE = Path(__file__).with_name("small_agent.py")
PROGRAM = "/workspace/small_agent.py"
ASK = (ApprovalRule(verdict=Verdict.ASK),)
DEADLINE_S = 45.0

F = TypeVar("F", bound=Fact)
Step = dict[str, Any]


async def sandbox_with_agent(cloche: Cloche, spec: Mapping[str, Any] | None = None) -> Sandbox:
    sandbox = await cloche.create(dict(spec or {}))
    await sandbox.files.write(PROGRAM, SOURCE.read_bytes())
    return sandbox


def options(**manners: Any) -> dict[str, Any]:
    return {"command": ["python3", PROGRAM, json.dumps(manners)]}


async def play(sandbox: Sandbox, *steps: Step, manners: Step | None = None, **order: Any) -> AgentRun:
    return await sandbox.agent.start("acp", json.dumps(steps), options=options(**manners or {}), **order)


async def told(run: AgentRun, form: type[F]) -> list[F]:
    """Everything of that kind that the log has of the run by now."""
    return [event.fact async for event in run.events() if isinstance(event.fact, form)]


async def until(run: AgentRun, form: type[F], matches: Callable[[F], bool] = lambda _: True) -> F:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE_S):
            async for event in run.events(follow=True):
                if isinstance(event.fact, form) and matches(event.fact):
                    return event.fact
    raise AssertionError(f"no {form.__name__} came: {await story(run)}")


async def story(run: AgentRun) -> list[Fact | None]:
    return [event.fact async for event in run.events()]


async def whole_messages(run: AgentRun) -> list[str]:
    return [fact.text for fact in await told(run, facts.AgentMessage) if not fact.partial]
