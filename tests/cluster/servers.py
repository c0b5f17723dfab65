"""Three real nats-servers, with TLS between them and to clients, as `cloche nats config` writes them."""

import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from contracts.errors import ClocheError, Unavailable
from contracts.streams import LOG_STREAM, Limits
from infra.bus.connection import Bus
from infra.bus.copies import settle
from infra.bus.provision import wanted
from infra.configuration import load
from infra.embedded.users import ADMIN
from infra.nats.addresses import ServerAddress
from infra.nats.servers import Servers, on_free_ports
from infra.settings import Durability, Settings
from tests.bus.servers import until

NAMES = ("n1", "n2", "n3")
READY_S = 240.0


class Cluster(Servers):
    """Made by `cluster_in`."""

    limits = Limits(replicas=3)

    def settings(self) -> Settings:
        """Of a client in this process."""
        return load({**self.environment(), "CLOCHE_DATA": str(self.directory / "data")})

    def reload(self) -> None:
        """Everything is written anew, and read."""
        self.write()
        for server in self.servers.values():
            server.send(signal.SIGHUP)

    async def provision(self, limits: Limits, realm: str = "") -> None:
        """Back when every copy is whole."""
        await super().provision(limits, realm)
        self.limits = limits
        async with await self.connect(ADMIN) as admin:
            await self.whole(admin)

    async def whole(self, admin: Bus, *streams: str) -> None:
        """Back when every server has every copy, of all or of these streams."""
        want = wanted(self.limits, self.nodes)
        names = streams or [config["name"] for config in want.streams]
        consumers = () if streams else want.consumers
        await settle(admin, names, consumers, self.limits.replicas, wait_s=READY_S, tell=lambda _: None)

    async def leader(self, admin: Bus, stream: str = LOG_STREAM, *, consumer: str = "", but: str = "") -> str:
        """Of a stream, or of a consumer of it. Waits until there is one that runs, another than `but`."""
        ask, found = f"CONSUMER.INFO.{stream}.{consumer}" if consumer else f"STREAM.INFO.{stream}", ""

        async def is_known() -> bool:
            nonlocal found
            with contextlib.suppress(ClocheError):
                found = str((await admin.api(ask, timeout=2))["cluster"].get("leader", ""))
            return found in self.servers and found != but and self.servers[found].runs

        await until(is_known, seconds=READY_S)
        return found

    async def step_down(self, admin: Bus, stream: str = LOG_STREAM) -> None:
        """Back when another leads."""
        before = await self.leader(admin, stream)

        async def has_heard() -> bool:
            """A leader that is new to it may not take orders yet."""
            with contextlib.suppress(Unavailable):
                await admin.api(f"STREAM.LEADER.STEPDOWN.{stream}")
                return True
            return await self.leader(admin, stream) != before

        await until(has_heard, seconds=READY_S)
        await self.leader(admin, stream, but=before)


@contextlib.asynccontextmanager
async def cluster_in(
    directory: Path,
    *,
    where: Sequence[ServerAddress] | None = None,
    nodes: Sequence[str] = ("local",),
    limits: Limits | None = None,
    durability: Durability = Durability.PROCESS,
    run_by: Callable[[str], Sequence[str]] = lambda _: (),
) -> AsyncIterator[Cluster]:
    """Three servers, on loopback unless it is said `where`; provisioned where `limits` are given.

    What is acknowledged is with two of three processes; few tests pull the plug.
    """
    where = where or on_free_ports(3)
    async with Cluster(directory, where, nodes=nodes, durability=durability, secure=True, run_by=run_by) as cluster:
        if limits is not None:
            await cluster.provision(limits)
        yield cluster
