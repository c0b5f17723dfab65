"""Agents of the OpenHands SDK for tests: the real SDK in a Docker sandbox, and a model that answers by script."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.client import Sandbox
from tests.agents import script
from tests.agents.model_server import ModelServer, model_server
from tests.agents.node import agent_node_in
from tests.agents.openhands.played import Played
from tests.agents.rig import Call, Crash, Say, Step, Think, Turn, World
from tests.agents.script import Said, ToolUse
from tests.images import openhands

CRASH = "kill -9 $PPID"
"""The shell's parent is the agent's own program."""
PRICES = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5}
OPTIONS: dict[str, Any] = {"llm": {"num_retries": 0, **PRICES}}


class OpenHandsRig:
    name = "openhands"
    before_tools = False
    thinks = True
    counts = True
    tool = "terminal"

    def __init__(self) -> None:
        self.model: ModelServer
        self._played: dict[str, Played] = {}

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

    def spec(self) -> dict[str, Any]:
        """Of a sandbox whose only way out leads to the model."""
        secret = self.model.secret("OPENAI_BASE_URL", header="Authorization", template="Bearer {secret}")
        where = {"isolation": "docker", "docker": {"image": openhands()}}
        return {**where, "network": {"allowed_hosts": []}, "secrets": [secret]}

    def play(self, marker: str, *turns: Turn) -> Mapping[str, Any]:
        self.script(marker, *map(_answers, turns))
        return {"runtime": self.name, "prompt": f"Please do {marker}.", "model": "scripted", "options": OPTIONS}

    def script(self, marker: str, *turns: Sequence[script.Turn]) -> None:
        """The next turns of the conversation whose prompt contains the marker."""
        played = self._played.setdefault(marker, Played())
        played.add(*turns)
        self.model.play(marker, played)


def make_rig() -> OpenHandsRig:
    return OpenHandsRig()


def _answers(turn: Turn) -> list[script.Turn]:
    """An answer of the model goes to its next tool call; the last has none."""
    answers: list[script.Turn] = []
    blocks: list[Said | ToolUse] = []
    for step in turn:
        blocks.append(_block(step))
        if isinstance(step, Call | Crash):
            answers.append(script.reply(*blocks))
            blocks = []
    return [*answers, script.reply(*(blocks or [script.text("done")]))]


def _block(step: Step) -> Said | ToolUse:
    match step:
        case Call():
            return script.tool("terminal", command=step.shell)
        case Crash():
            return script.tool("terminal", command=CRASH)
        case Say():
            return script.text(step.text)
        case Think():
            return script.thinking(step.text)
