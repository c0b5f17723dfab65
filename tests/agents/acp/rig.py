"""Agents that speak the Agent Client Protocol, for the suite that all runtimes pass: the small agent of these tests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.client import Sandbox
from tests.agents.acp.player import options, sandbox_with_agent
from tests.agents.node import agent_node_in
from tests.agents.rig import Call, Crash, Rig, Say, Step, Think, Turn, World

USAGE = {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}


class AcpRig:
    name = "acp"
    before_tools = False
    thinks = True
    counts = True
    tool = "execute"

    def __init__(self) -> None:
        self._plays = 0

    @asynccontextmanager
    async def world(self, place: Path) -> AsyncIterator[World]:
        async with agent_node_in(place / "node") as node, node.connect() as cloche:
            yield World(node, cloche)

    async def sandbox(self, world: World, **spec: Any) -> Sandbox:
        return await sandbox_with_agent(world.cloche, spec)

    def play(self, marker: str, *turns: Turn) -> Mapping[str, Any]:
        self._plays += 1
        played = [[*map(_step, range(len(turn)), turn), {"usage": USAGE}] for turn in turns]
        return {
            "runtime": self.name,
            "prompt": f"Please do {marker}.",
            "options": options(script=f"{marker}-{self._plays}", turns=played),
        }


def make_rig() -> Rig:
    return AcpRig()


def _step(number: int, step: Step) -> dict[str, Any]:
    match step:
        case Call():
            return {"call": {"id": f"call-{number}", "shell": step.shell}}
        case Say():
            return {"say": step.text}
        case Think():
            return {"think": step.text}
        case Crash():
            return {"crash": 3}
