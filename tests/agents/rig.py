"""What a runtime offers to the suite that all of them pass: the same scenes, played in its own way."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from infra.client import Cloche, Sandbox
from tests.agents.node import AgentNode


class Call(NamedTuple):
    """A tool call that runs a line of shell in the workspace."""

    shell: str


class Say(NamedTuple):
    text: str


class Think(NamedTuple):
    text: str


class Crash(NamedTuple):
    """The agent's program dies in the middle of the turn."""


Step = Call | Say | Think | Crash
Turn = tuple[Step, ...]
"""What the agent does from a prompt or message until it has nothing more to do."""


class World(NamedTuple):
    node: AgentNode
    cloche: Cloche


class Rig(Protocol):
    name: str
    before_tools: bool
    """Whether what is said in a turn is injected before its next tool call; otherwise it begins the next turn."""
    thinks: bool
    """Whether its thoughts can be told from its words."""
    counts: bool
    """Whether tokens are counted."""

    def world(self, place: Path) -> AbstractAsyncContextManager[World]:
        """A node on which such agents can run, made once for the whole suite."""
        ...

    async def sandbox(self, world: World, **spec: Any) -> Sandbox:
        """One that suits them. `spec`: fields of the specification beside its own."""
        ...

    def play(self, marker: str, *turns: Turn) -> Mapping[str, Any]:
        """Arguments of `sandbox.agent.start` for an agent that plays these turns: the first on its prompt, each next on
        the next message that begins a turn. `marker` is unguessable and the same for one conversation: the prompt
        contains it, and messages of the suite do too.
        """
        ...

    @property
    def tool(self) -> str:
        """The name under which `Call` appears in `agent.tool_use`."""
        ...
