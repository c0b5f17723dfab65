"""Three servers on hosts of their own, and a host for whoever tests them."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from infra.bus.connection import Bus
from tests.cluster_faults.network import Network
from tests.cluster_faults.servers import NAMES, Cluster, cluster_in

CLIENT = "client"


class Lab:
    def __init__(self, network: Network, cluster: Cluster, admin: Bus, stack: contextlib.AsyncExitStack) -> None:
        self.network = network
        self.cluster = cluster
        self.admin = admin
        self._stack = stack

    async def connect(self, user: str, *, servers: tuple[str, ...] = NAMES, host: str = CLIENT) -> Bus:
        """From a host. Closed with the laboratory."""
        with self.network.inside(host):
            bus = await self.cluster.connect(user, servers=servers)
        return await self._stack.enter_async_context(bus)


@contextlib.asynccontextmanager
async def lab_in(directory: Path) -> AsyncIterator[Lab]:
    """The calling thread is on the client's host meanwhile."""
    async with contextlib.AsyncExitStack() as stack:
        network = stack.enter_context(Network((*NAMES, CLIENT)))
        stack.enter_context(network.inside(CLIENT))
        cluster = await stack.enter_async_context(cluster_in(directory, network))
        admin = await stack.enter_async_context(await cluster.connect("admin"))
        yield Lab(network, cluster, admin, stack)
