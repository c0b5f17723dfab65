"""Agents of the Claude Agent SDK for tests: the real SDK and CLI, and a model that answers by script."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.client import Sandbox
from tests.agents.model_server import Asked, ModelServer, model_server, user_texts
from tests.agents.node import agent_node_in
from tests.agents.rig import Call, Crash, Say, Step, Think, Turn, World
from tests.agents.script import Reply, Said, ToolUse, reply, text, thinking, tool
from tests.images import debian

CRASH = "kill -9 $CLAUDE_PID; sleep 30"


class ClaudeRig:
    name = "claude"
    before_tools = True
    thinks = True
    counts = True
    tool = "Bash"

    def __init__(self) -> None:
        self.model: ModelServer
        self._turns: dict[str, list[list[Reply]]] = {}

    @asynccontextmanager
    async def world(self, place: Path) -> AsyncIterator[World]:
        async with (
            model_server(place) as self.model,
            agent_node_in(place / "node") as node,
            node.connect() as cloche,
        ):
            yield World(node, cloche)

    async def sandbox(self, world: World, **spec: Any) -> Sandbox:
        return await world.cloche.create({**self.spec(), **spec})

    def spec(self, tier: str = "local") -> dict[str, Any]:
        """Of a sandbox whose only way out leads to the model."""
        image = {"docker": {"image": debian()}} if tier == "docker" else {}
        secrets = [self.model.secret("ANTHROPIC_BASE_URL")]
        return {"isolation": tier, "network": {"allowed_hosts": []}, "secrets": secrets, **image}

    def play(self, marker: str, *turns: Turn) -> Mapping[str, Any]:
        self._turns.setdefault(marker, []).extend(_replies(turn) for turn in turns)
        self.model.play(marker, lambda asked: self._answer(marker, asked))
        return {"runtime": self.name, "prompt": f"Please do {marker}."}

    def _answer(self, marker: str, asked: Asked) -> Reply:
        """By how many prompts there were, and how many answers since the last of them."""
        prompts, answers = 0, 0
        for message in asked.messages:
            if any(marker in each and not each.startswith("<system-reminder>") for each in user_texts(message)):
                prompts, answers = prompts + 1, 0
            answers += message["role"] == "assistant"
        turns = self._turns[marker]
        turn = turns[min(prompts, len(turns)) - 1]
        return turn[min(answers, len(turn) - 1)]


def make_rig() -> ClaudeRig:
    return ClaudeRig()


def _replies(turn: Turn) -> list[Reply]:
    """An answer of the model goes to its next tool call; the last has none."""
    answers: list[Reply] = []
    blocks: list[Said | ToolUse] = []
    for step in turn:
        blocks.append(_block(step))
        if isinstance(step, Call | Crash):
            answers.append(reply(*blocks))
            blocks = []
    return [*answers, reply(*(blocks or [text("done")]))]


def _block(step: Step) -> Said | ToolUse:
    match step:
        case Call():
            return tool("Bash", command=step.shell, description="a step")
        case Crash():
            return tool("Bash", command=CRASH, description="a step")
        case Say():
            return text(step.text)
        case Think():
            return thinking(step.text)
