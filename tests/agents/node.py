"""A node that has agents, and orders to them as any client gives them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.services.node import Node, Service


class AgentNode(Node):
    """With the agent service as a process of its own beside the others."""

    def __init__(self, data: Path, **values: str) -> None:
        super().__init__(data, **values)
        self.services["agent"] = Service("agent", data, values)


@asynccontextmanager
async def agent_node_in(data: Path, **values: str) -> AsyncIterator[AgentNode]:
    async with AgentNode(data, **values) as node:
        yield node
