"""Three real nats-servers, each on a host of its own, with every stream on all three."""

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

from contracts.errors import ClocheError
from contracts.streams import LOG_STREAM, Limits
from infra.bus.connection import Bus, connect
from infra.bus.copies import settle
from infra.bus.provision import provision, wanted
from infra.embedded import process, secrets
from infra.nats import addresses
from infra.nats.addresses import ServerAddress
from infra.nats.directory import write_all
from infra.nats.server_conf import Layout
from infra.settings import Durability
from tests.bus.servers import until
from tests.cluster_faults.network import Network

NAMES = ("s1", "s2", "s3")
LIMITS = Limits(replicas=3)
READY_S = 240.0


class ClusterServer:
    """One of three. What it stored stays when it is killed."""

    def __init__(self, address: ServerAddress, directory: Path, namespace: str) -> None:
        self.address = address
        self.store = directory / "store" / address.name
        self._directory = directory
        self._namespace = namespace
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return addresses.url([self.address], tls=False)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *before: str) -> None:
        """`before`: a command that runs the server."""
        name = self.address.name
        inside = ["ip", "netns", "exec", self._namespace, *before]
        command = [*inside, str(process.binary()), "-c", str(self._directory / f"{name}.conf")]
        with (self._directory / f"{name}.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Back when it has ended."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            self._process.wait()


class Cluster:
    def __init__(self, directory: Path, network: Network) -> None:
        self._directory = directory
        hosts = tuple(ServerAddress(name=name, host=network.address(name)) for name in NAMES)
        self._layout = Layout(store=directory / "store" / "{server}", durability=Durability.PROCESS)
        self.servers = {each.name: ClusterServer(each, directory, network.namespace(each.name)) for each in hosts}

    @property
    def url(self) -> str:
        return addresses.url([each.address for each in self.servers.values()], tls=False)

    @property
    def credentials(self) -> Path:
        return secrets.directory(self._directory)

    async def start(self, nodes: tuple[str, ...]) -> None:
        """Back when every copy is whole."""
        write_all(self._directory, [each.address for each in self.servers.values()], self._layout, nodes)
        for server in self.servers.values():
            server.start()
        async with await self.connect("admin") as admin:
            await provision(admin, LIMITS, nodes, wait_s=READY_S)
            want = wanted(LIMITS, nodes)
            names = [config["name"] for config in want.streams]
            await settle(admin, names, want.consumers, 3, wait_s=READY_S, tell=lambda _: None)

    async def connect(self, user: str, *, servers: tuple[str, ...] = NAMES) -> Bus:
        url = addresses.url([self.servers[name].address for name in servers], tls=False)
        password = secrets.read(self.credentials, user).password
        return await connect(url, user, password, f"test-{user}", patience_s=READY_S)

    async def leader(self, admin: Bus, stream: str = LOG_STREAM) -> str:
        """Waits until there is one."""
        found = ""

        async def is_known() -> bool:
            nonlocal found
            with contextlib.suppress(ClocheError):
                found = str((await admin.api(f"STREAM.INFO.{stream}"))["cluster"].get("leader", ""))
            return bool(found)

        await until(is_known, seconds=READY_S)
        return found

    async def step_down(self, admin: Bus, stream: str = LOG_STREAM) -> None:
        """Back when another leads."""
        before = await self.leader(admin, stream)
        await admin.api(f"STREAM.LEADER.STEPDOWN.{stream}")

        async def has_moved() -> bool:
            return await self.leader(admin, stream) != before

        await until(has_moved, seconds=READY_S)

    async def whole(self, admin: Bus, stream: str = LOG_STREAM) -> None:
        """Back when every replica has all of it."""

        async def is_whole() -> bool:
            with contextlib.suppress(ClocheError):
                found = (await admin.api(f"STREAM.INFO.{stream}"))["cluster"]
                others = found.get("replicas") or []
                return bool(found.get("leader")) and len(others) == 2 and all(each["current"] for each in others)
            return False

        await until(is_whole, seconds=READY_S)

    def stop(self) -> None:
        for server in self.servers.values():
            server.kill()


@contextlib.asynccontextmanager
async def cluster_in(directory: Path, network: Network, *, nodes: tuple[str, ...] = ("n1",)) -> AsyncIterator[Cluster]:
    cluster = Cluster(directory, network)
    try:
        await cluster.start(nodes)
        yield cluster
    finally:
        cluster.stop()
