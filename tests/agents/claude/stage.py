"""A node with a scripted model, shared by the tests of a file: starting the CLI is dear enough."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from infra.client import Cloche, Sandbox
from tests.agents.claude.rig import ClaudeRig
from tests.agents.model_server import ModelServer
from tests.agents.node import AgentNode
from tests.agents.script import ToolUse, tool


class Stage:
    def __init__(self, rig: ClaudeRig, node: AgentNode, cloche: Cloche) -> None:
        self._rig = rig
        self.model: ModelServer = rig.model
        self.node = node
        self.cloche = cloche

    async def sandbox(self, tier: str = "local", **spec: Any) -> Sandbox:
        return await self.cloche.create({**self._rig.spec(tier), **spec})


@asynccontextmanager
async def stage_in(place: Path) -> AsyncIterator[Stage]:
    rig = ClaudeRig()
    async with rig.world(place) as world:
        yield Stage(rig, world.node, world.cloche)


def bash(command: str) -> ToolUse:
    return tool("Bash", command=command, description="a step")
