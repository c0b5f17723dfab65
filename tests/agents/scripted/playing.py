"""Scripts that tests have played, and what the log says of them without what differs from run to run."""

from typing import Any

import msgspec

from contracts.events import agent as facts
from contracts.message import Fact
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from tests.agents.conformance.scenes import story

OWN = frozenset(
    {"run", "call", "message", "parent", "approval", "order", "sequence", "key", "duration_ms", "process", "session"}
)
"""Fields that are another run's in another run."""


async def begin(sandbox: Sandbox, script: Any, *, prompt: str = "play", **more: Any) -> AgentRun:
    options = {} if script is None else {"script": msgspec.json.encode(script).decode()}
    return await sandbox.agent.start("script", prompt, options=options, **more)


async def played(sandbox: Sandbox, script: Any, **more: Any) -> list[Fact]:
    run = await begin(sandbox, script, **more)
    await run.wait()
    return await story(run)


async def sequence(run: AgentRun) -> list[tuple[str, dict[str, Any]]]:
    """Everything that was told, in order; of a message in parts only the whole."""
    return [
        (type(fact).__name__, {name: value for name, value in msgspec.to_builtins(fact).items() if name not in OWN})
        for fact in await story(run)
        if not getattr(fact, "partial", False) and not isinstance(fact, facts.AgentStarted)
    ]


def results(told: list[Fact]) -> list[tuple[bool, str]]:
    return [(fact.ok, fact.output) for fact in told if isinstance(fact, facts.AgentToolResult)]


def texts(told: list[Fact]) -> list[str]:
    return [fact.text for fact in told if isinstance(fact, facts.AgentMessage) and not fact.partial]
