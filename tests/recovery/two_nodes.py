"""Two nodes on one machine: two data folders, two names, one NATS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from contracts.streams import COMMANDS_STREAM
from infra.bus.connection import Bus
from infra.client import Cloche, Sandbox
from infra.embedded import secrets
from infra.keeper.launcher import end_keeper
from tests.bus.servers import Server, nats_in, stored, until
from tests.services.node import SERVICES, Service, end_sandboxes, settings_in

ONCE = "replay"
"""The one service that a NATS has, however many nodes."""
CONFIG = '[intervals]\nhealth_s = 0.5\n[sandbox.restart]\npolicy = "never"\n'
"""Here it is the test that says when something is recovered."""


class OneOfTwo:
    def __init__(self, name: str, data: Path, server: Server, names: tuple[str, ...]) -> None:
        self.name = name
        self.data = data
        self.server = server
        self.values = values = {
            "CLOCHE_NODE": name,
            "CLOCHE_URL": server.url,
            "CLOCHE_CREDS": str(secrets.directory(server.data)),
        }
        self.settings = settings_in(data, **values)
        self.services = {each: Service(each, data, values) for each in names}

    async def start(self) -> None:
        await asyncio.gather(*(service.start() for service in self.services.values()))

    async def die(self) -> None:
        """As a machine does: every service, the keeper, and every sandbox at once; what is on its disk stays."""
        await asyncio.gather(*(service.kill() for service in self.services.values()))

    async def aclose(self) -> None:
        await self.die()
        await end_sandboxes(self.data)
        await end_keeper(self.data, force=True)


class Pair(NamedTuple):
    first: OneOfTwo
    second: OneOfTwo
    cloche: Cloche
    admin: Bus

    def by_owner(self, name: str) -> tuple[OneOfTwo, OneOfTwo]:
        """The node of that name, and the other."""
        return (self.first, self.second) if name == self.first.name else (self.second, self.first)

    async def orders_are_done(self) -> None:
        """Every one that was given has been obeyed or refused."""
        await until(self._is_idle, seconds=60)

    async def _is_idle(self) -> bool:
        return await stored(self.admin, COMMANDS_STREAM) == 0


@asynccontextmanager
async def two_nodes(place: Path) -> AsyncIterator[Pair]:
    async with nats_in(place / "hub", nodes=("n1", "n2")) as server:
        nodes = []
        for name in ("n1", "n2"):
            data = place / name
            data.mkdir()
            (data / "cloche.toml").write_text(CONFIG)
            names = tuple(each for each in SERVICES if each != ONCE or name == "n1")
            nodes.append(OneOfTwo(name, data, server, names))
        try:
            await asyncio.gather(*(node.start() for node in nodes))
            async with Cloche.connect(nodes[0].settings) as cloche:
                yield Pair(nodes[0], nodes[1], cloche, await server.connect("admin"))
        finally:
            for node in nodes:
                await node.aclose()


async def create_on(pair: Pair, node: OneOfTwo, name: str) -> Sandbox:
    """On that node: the other is asked to sit this one out, for a creation goes to whoever is first."""
    _, other = pair.by_owner(node.name)
    await other.services["spawner"].kill()
    sandbox = await pair.cloche.create(id=name)
    await other.services["spawner"].start()
    assert sandbox.state.node == node.name
    return sandbox
