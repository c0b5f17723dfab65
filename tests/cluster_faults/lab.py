"""Three servers on hosts of their own, with TLS, and a host for whoever tests them."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from contracts.streams import Limits
from infra.bus.connection import Bus
from infra.nats.addresses import ServerAddress
from infra.settings import Durability
from tests.cluster.servers import Cluster, cluster_in
from tests.cluster_faults.network import Network

SERVERS = ("s1", "s2", "s3")
CLIENT = "client"


class Lab:
    def __init__(self, network: Network, cluster: Cluster, admin: Bus) -> None:
        self.network = network
        self.cluster = cluster
        self.admin = admin

    async def connect(self, user: str, *, servers: Sequence[str] = SERVERS, host: str = CLIENT) -> Bus:
        """From a host. Closed with the laboratory."""
        with self.network.inside(host):
            return await self.cluster.connect(user, only=servers)


@contextlib.asynccontextmanager
async def lab_in(
    directory: Path, *, nodes: Sequence[str] = (), durability: Durability = Durability.PROCESS
) -> AsyncIterator[Lab]:
    """With a host for each of the nodes. The calling thread is on the client's host meanwhile."""
    with Network((*SERVERS, *nodes, CLIENT)) as network, network.inside(CLIENT):
        where = [ServerAddress(name=name, host=network.address(name)) for name in SERVERS]
        async with cluster_in(
            directory,
            where=where,
            nodes=nodes or ("n1",),
            limits=Limits(replicas=3),
            durability=durability,
            run_by=network.run_on,
        ) as cluster:
            yield Lab(network, cluster, await cluster.connect("admin"))
