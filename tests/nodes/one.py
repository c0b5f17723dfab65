"""One node's spawner in this process, whose writing a test can hold up or spoil."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from contracts import codec, subjects
from contracts.message import Fact
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.orders import raise_if_given_up
from infra.client.sandbox import load_state
from infra.embedded import secrets
from infra.journal import Journal
from infra.keeper.launcher import end_keeper
from infra.sandbox.providers import load_provider
from services.spawner.app import SpawnerApp
from tests.bus.servers import Server, nats_in
from tests.services.node import end_sandboxes, settings_in

CONFIG = """
[node]
vitals_s = 0.3
labels = { zone = "a" }
[sandbox.network]
mode = "none"
[sandbox.resources]
memory_mb = 512
"""

Before = Callable[[str, Fact], Awaitable[None]]
"""Called before a move of a sandbox is written."""


class One(NamedTuple):
    bus: Bus
    data: Path
    server: Server
    values: dict[str, str]
    """Of the environment that its services have."""

    async def told(self, *kinds: type[Fact]) -> Fact:
        """The first of these that the log says of the node."""
        async for entry in reader.read(self.bus, [subjects.node_events("n1")], 1, follow=True):
            fact = codec.decode_fact(codec.decode_head(entry.data))
            if isinstance(fact, kinds):
                return fact
        raise AssertionError

    async def refused(self, sandbox: str, command: str) -> None:
        """Raises the reason; waits for it."""
        filters = subjects.events_of(sandbox, family=subjects.DEAD_LETTER, scope=command)
        async for entry in reader.read(self.bus, filters, 1, follow=True):
            raise_if_given_up(codec.decode_head(entry.data), command)

    async def state(self, sandbox: str) -> SandboxState:
        return await load_state(self.bus, sandbox)

    async def seen(self, sandbox: str) -> str:
        """What is really there."""
        async with load_provider("local", self.data) as provider:
            seen = await provider.inspect(sandbox)
        return "nothing" if seen is None else seen.state.value


@asynccontextmanager
async def one_in(place: Path, patch: pytest.MonkeyPatch, before: Before, config: str = CONFIG) -> AsyncIterator[One]:
    class Watched(Journal):
        async def move(self, sandbox: str, fact: Fact, *, expected: int, command: str | None = None) -> int:
            await before(sandbox, fact)
            return await super().move(sandbox, fact, expected=expected, command=command)

    patch.setattr("services.spawner.parts.Journal", Watched)
    data = place / "n1"
    data.mkdir()
    (data / "cloche.toml").write_text(config)
    async with nats_in(place / "hub", nodes=("n1",)) as server:
        values = {"CLOCHE_NODE": "n1", "CLOCHE_URL": server.url, "CLOCHE_CREDS": str(secrets.directory(server.data))}
        ready = asyncio.Event()
        serving = asyncio.create_task(SpawnerApp(settings_in(data, **values)).serve(ready.set))
        try:
            await ready.wait()
            yield One(await server.connect("client"), data, server, values)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await end_sandboxes(data)
            await end_keeper(data, force=True)
