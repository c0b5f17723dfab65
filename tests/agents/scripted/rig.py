"""The scenes of the suite, as scripts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from infra.client import Sandbox
from tests.agents.node import agent_node_in
from tests.agents.rig import Call, Crash, Rig, Say, Step, Think, Turn, World


class ScriptRig:
    name = "script"
    before_tools = True
    thinks = True
    counts = True
    tool = "run"

    @asynccontextmanager
    async def world(self, place: Path) -> AsyncIterator[World]:
        async with agent_node_in(place) as node, node.connect() as cloche:
            yield World(node, cloche)

    async def sandbox(self, world: World, **spec: Any) -> Sandbox:
        return await world.cloche.create(spec)

    def play(self, marker: str, *turns: Turn) -> Mapping[str, Any]:
        script = {"turns": [[made for step in turn for made in _steps(step)] for turn in turns]}
        return {
            "runtime": self.name,
            "prompt": f"{marker}: play",
            "options": {"script": msgspec.json.encode(script).decode()},
        }


def _steps(step: Step) -> list[dict[str, Any]]:
    match step:
        case Call():
            return [{"spend": {"input_tokens": 10, "output_tokens": 1}}, {"run": step.shell}]
        case Say():
            return [{"say": step.text}]
        case Think():
            return [{"think": step.text}]
        case Crash():
            return [{"fail": "struck down"}]


def make_rig() -> Rig:
    return ScriptRig()
