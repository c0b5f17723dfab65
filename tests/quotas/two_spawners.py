"""Two spawners of two nodes on one bus, with the same quotas, and nothing else of a node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from infra.bus.connection import Bus
from infra.client import Cloche
from infra.embedded import secrets
from infra.journal import Journal
from tests.bus.servers import Server, nats_in
from tests.services.node import Service, end_sandboxes, settings_in

NODES = ("n1", "n2")


class Spawners(NamedTuple):
    server: Server
    cloche: Cloche
    services: dict[str, Service]

    async def journal(self, node: str) -> Journal:
        """The pen of a node's spawner."""
        return Journal(await self.bus(), service="spawner", node=node)

    async def bus(self) -> Bus:
        return await self.server.connect("spawner")


@asynccontextmanager
async def two_spawners(place: Path, quotas: str) -> AsyncIterator[Spawners]:
    async with nats_in(place / "hub", nodes=NODES) as server:
        credentials = str(secrets.directory(server.data))
        services: dict[str, Service] = {}
        for name in NODES:
            (place / name).mkdir()
            (place / name / "cloche.toml").write_text(quotas)
            values = {"CLOCHE_NODE": name, "CLOCHE_URL": server.url, "CLOCHE_CREDS": credentials}
            services[name] = Service("spawner", place / name, values)
        try:
            await asyncio.gather(*(service.start() for service in services.values()))
            settings = settings_in(place / "n1", CLOCHE_URL=server.url, CLOCHE_CREDS=credentials)
            async with Cloche.connect(settings) as cloche:
                yield Spawners(server, cloche, services)
        finally:
            for name, service in services.items():
                await service.kill()
                await end_sandboxes(place / name)


def wanted(project: str, **resources: Any) -> dict[str, Any]:
    return {"project_id": project, "network": {"mode": "none"}, "resources": resources}
