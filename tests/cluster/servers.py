"""Three real nats-servers on loopback, with TLS between them and to clients, as `cloche nats config` writes them."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

from contracts.streams import Limits
from infra.bus import tls
from infra.bus.connection import Bus, connect
from infra.bus.copies import settle
from infra.bus.provision import provision, wanted
from infra.embedded import process, secrets
from infra.nats import addresses
from infra.nats.addresses import ServerAddress
from infra.nats.directory import certify, own_certificates, write_all
from infra.nats.server_conf import Layout
from infra.settings import Durability, Settings, load

READY_S = 120.0
NAMES = ("n1", "n2", "n3")


class Cluster:
    """Servers n1, n2, n3. Every bus that it opened is closed with it. Made by `cluster_in`."""

    def __init__(self, directory: Path, stack: contextlib.AsyncExitStack) -> None:
        self.directory = directory
        self.servers = _on_free_ports()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = stack
        self.layout = Layout(
            store=directory / "store" / "{server}",
            # What is acknowledged is with two of three processes; no test here pulls the plug.
            durability=Durability.PROCESS,
            tls=own_certificates(directory),
        )

    @property
    def url(self) -> str:
        return addresses.url(self.servers, tls=True)

    @property
    def ca(self) -> Path:
        return self.directory / "tls" / "ca.pem"

    @property
    def credentials(self) -> Path:
        return secrets.directory(self.directory)

    def environment(self) -> dict[str, str]:
        """For a process that is to be a client."""
        return {"CLOCHE_URL": self.url, "CLOCHE_CREDS": str(self.credentials), "CLOCHE_CA": str(self.ca)}

    def settings(self) -> Settings:
        """Of a client in this process."""
        return load({**self.environment(), "CLOCHE_DATA": str(self.directory / "data")})

    def write(self, nodes: tuple[str, ...]) -> None:
        write_all(self.directory, self.servers, self.layout, nodes)

    def address(self, name: str) -> ServerAddress:
        return next(server for server in self.servers if server.name == name)

    async def connect(self, user: str, *, only: str | None = None, patience_s: float = READY_S) -> Bus:
        """To any of the servers, or to `only` one."""
        url = self.url if only is None else addresses.url([self.address(only)], tls=True)
        password = secrets.read(self.credentials, user).password
        context = tls.context(url, self.ca)
        bus = await connect(url, user, password, user, patience_s=patience_s, tls=context)
        return await self._stack.enter_async_context(bus)

    def start(self, *names: str) -> None:
        for name in names or NAMES:
            log = self._stack.enter_context((self.directory / f"{name}.log").open("ab"))
            command = [str(process.binary()), "-c", str(self.directory / f"{name}.conf")]
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Back when it is dead."""
        ended = self.running.pop(name)
        ended.send_signal(number)
        ended.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """SIGHUP = read the configuration again; SIGSTOP and SIGCONT = out of reach, and back."""
        os.kill(self.running[name].pid, number)

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)

    async def provision(self, limits: Limits, nodes: tuple[str, ...] = ("local",)) -> None:
        """Back when every copy is whole."""
        admin = await self.connect("admin")
        await provision(admin, limits, nodes, wait_s=READY_S)
        await admin.aclose()
        await self.whole(limits, nodes)

    async def whole(self, limits: Limits, nodes: tuple[str, ...] = ("local",)) -> None:
        """Back when every server has every copy."""
        want = wanted(limits, nodes)
        names = [config["name"] for config in want.streams]
        admin = await self.connect("admin")
        await settle(admin, names, want.consumers, limits.replicas, wait_s=READY_S, tell=lambda _: None)
        await admin.aclose()

    async def leader(self, admin: Bus, stream: str = "CLOCHE_LOG") -> str:
        """Waits until there is one."""
        async with asyncio.timeout(READY_S):
            while True:
                with contextlib.suppress(Exception):
                    found = (await admin.api(f"STREAM.INFO.{stream}", timeout=2))["cluster"].get("leader", "")
                    if found in self.running:
                        return str(found)
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def cluster_in(
    directory: Path, *, nodes: tuple[str, ...] = ("local",), limits: Limits | None = None
) -> AsyncIterator[Cluster]:
    """Three servers that have found each other; provisioned where `limits` are given."""
    async with contextlib.AsyncExitStack() as stack:
        cluster = Cluster(directory, stack)
        stack.callback(cluster.end)
        certify(directory, cluster.servers)
        cluster.write(nodes)
        cluster.start()
        if limits is not None:
            await cluster.provision(limits, nodes)
        yield cluster


def free_ports(number: int) -> list[int]:
    """All are held at once, so that no two are the same."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _on_free_ports() -> tuple[ServerAddress, ...]:
    ports = free_ports(2 * len(NAMES))
    pairs = zip(NAMES, ports[::2], ports[1::2], strict=True)
    return tuple(ServerAddress(name=name, host="127.0.0.1", port=port, route_port=route) for name, port, route in pairs)
