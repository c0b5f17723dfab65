"""Three nodes, each on a host of its own: `cloche node`, its keeper, and local sandboxes."""

import asyncio
import contextlib
import os
import runpy
import signal
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from contracts.errors import Unavailable
from infra.keeper.client import KeeperClient
from infra.keeper.launcher import end_keeper
from infra.sandbox.providers import load_provider
from tests.bus.servers import until
from tests.cluster_faults.network import Network, enter
from tests.cluster_faults.servers import Cluster
from tests.forking import Birth, fork
from tests.services.node import DEFAULTS, end_sandboxes, settings_in

NAMES = ("n1", "n2", "n3")
READY_S = 240.0
READY = "Ctrl-C"
CONFIG = """\
nodes = ["n1", "n2", "n3"]
first_uid = {first_uid}
[node]
labels = {{host = "{name}"}}
[intervals]
health_s = 0.5
"""


class ClusterNode:
    """One process with all services, as `cloche node` runs it; the keeper and the sandboxes outlive it."""

    def __init__(self, name: str, data: Path, url: str, credentials: Path, begin: Callable[[], object]) -> None:
        """`begin` is called in its process, before anything else."""
        self.name = name
        self.data = data
        self._begin = begin
        values = {"CLOCHE_NODE": name, "CLOCHE_URL": url, "CLOCHE_CREDS": str(credentials)}
        data.mkdir()
        first_uid = 300_000 + 20_000 * NAMES.index(name)
        (data / "cloche.toml").write_text(CONFIG.format(name=name, first_uid=first_uid))
        self._env = {**os.environ, **DEFAULTS, **values, "CLOCHE_DATA": str(data)}
        self.settings = settings_in(data, **values)
        self._process: ForkServerProcess | None = None
        self._said = data / "said"

    async def start(self) -> None:
        """Back when it takes orders."""
        already = self._said.read_text().count(READY) if self._said.exists() else 0
        with self._said.open("ab") as said:
            born = Birth(self._env, os.getcwd(), (os.open(os.devnull, os.O_RDONLY), said.fileno(), said.fileno()))
            self._process = await asyncio.to_thread(fork, born, _serve, self._begin)
            os.close(born.streams[0])
        try:
            await until(lambda: self._said.read_text().count(READY) > already, seconds=READY_S)
        except TimeoutError:
            raise AssertionError(f"{self.name} does not start: {self.words()[-5000:]}") from None

    async def end(self, number: int = signal.SIGKILL) -> None:
        """Every service at once. Back when they have ended."""
        if self._process is not None and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            await asyncio.to_thread(self._process.join)

    async def die(self) -> None:
        """As a machine does: every service, the keeper, and every sandbox; what is on its disk stays."""
        await self.end()
        with contextlib.suppress(Unavailable):
            async with await KeeperClient.connect(self.data) as keeper:
                os.kill((await keeper.hello()).pid, signal.SIGKILL)
        async with load_provider("local", self.data) as provider:
            for sandbox in await provider.sandboxes():
                seen = await provider.inspect(sandbox)
                if seen is not None and seen.pid is not None:
                    os.kill(seen.pid, signal.SIGKILL)

    async def holds_nothing(self) -> bool:
        """Whether the keeper has let go of every command."""
        try:
            async with await KeeperClient.connect(self.data) as keeper:
                return not await keeper.list()
        except Unavailable:
            return True

    async def aclose(self) -> None:
        await self.end()
        await end_sandboxes(self.data)
        await end_keeper(self.data, force=True)

    def words(self) -> str:
        return self._said.read_text() if self._said.exists() else ""


def _serve(begin: Callable[[], object]) -> None:
    begin()
    sys.argv = ["services.cli", "node"]
    runpy.run_module("services.cli", run_name="__main__", alter_sys=True)


@contextlib.asynccontextmanager
async def nodes_in(place: Path, cluster: Cluster, network: Network) -> AsyncIterator[dict[str, ClusterNode]]:
    nodes = {
        name: ClusterNode(name, place / name, cluster.url, cluster.credentials, partial(enter, network.namespace(name)))
        for name in NAMES
    }
    try:
        await asyncio.gather(*(node.start() for node in nodes.values()))
        yield nodes
    finally:
        for node in nodes.values():
            await node.aclose()
