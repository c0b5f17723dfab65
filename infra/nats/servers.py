"""NATS servers of our own, as `cloche nats config` sets them up: for benchmarks, and for tests that strike them."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from contracts.errors import Unavailable
from contracts.streams import Limits
from infra.bus import tls
from infra.bus.connection import Bus, connect
from infra.bus.provision import provision
from infra.embedded import process, secrets
from infra.embedded.realm import Realm
from infra.embedded.users import ADMIN, login_name
from infra.nats import addresses
from infra.nats.addresses import ServerAddress
from infra.nats.directory import certify, own_certificates, write_all
from infra.nats.server_conf import Layout
from infra.ports import free_ports
from infra.settings import Durability

READY_S = 240.0
LOOK_S = 0.02
CLIENT = "servers"


class Server:
    """One process, with its configuration in `directory`. What it stored stays when it is killed."""

    def __init__(self, address: ServerAddress, directory: Path, run_by: Sequence[str] = ()) -> None:
        """`run_by`: the command that runs the server's own, and is replaced by it."""
        self.address = address
        self.log = directory / f"{address.name}.log"
        self._command = [*run_by, str(process.binary()), "-c", str(directory / f"{address.name}.conf")]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """0 before `start`."""
        return self._process.pid if self._process else 0

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def send(self, number: int) -> None:
        """SIGHUP = read the configuration again; SIGSTOP and SIGCONT = out of reach, and back."""
        if self.runs:
            os.kill(self.pid, number)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Back when it has ended."""
        self.send(number)
        if self._process is not None:
            self._process.wait()

    async def listens(self) -> None:
        """Back when it does. Raises `Unavailable` with its log if it does not."""
        for _ in range(int(READY_S / LOOK_S)):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(self.address.host, self.address.port)
                writer.close()
                return
            if not self.runs:
                break
            await asyncio.sleep(LOOK_S)
        raise Unavailable(f"{self.address.name} does not listen; its log: {self.log}")


class Servers:
    """One, or several that find each other. Everything but the directory ends with it: servers and connections."""

    def __init__(
        self,
        directory: Path,
        where: Sequence[ServerAddress],
        *,
        nodes: Sequence[str] = ("local",),
        realms: Sequence[Realm] = (Realm(),),
        durability: Durability = Durability.DISK,
        secure: bool = False,
        run_by: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """`secure`: with TLS. `run_by`: see `Server`, for each name."""
        self.directory = directory
        self.where = tuple(where)
        self.nodes = tuple(nodes)
        self.secure = secure
        self.servers = {each.name: Server(each, directory, run_by(each.name)) for each in where}
        self._realms = tuple(realms)
        certificates = own_certificates(directory) if secure else None
        self._layout = Layout(store=directory / "store" / "{server}", durability=durability, tls=certificates)
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.write)
        try:
            for server in self.servers.values():
                server.start()
            # Before anybody asks, who would complain.
            await asyncio.gather(*(server.listens() for server in self.servers.values()))
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._open.aclose()
        for server in self.servers.values():
            server.kill()

    @property
    def url(self) -> str:
        return addresses.url(self.where, tls=self.secure)

    @property
    def credentials(self) -> Path:
        return secrets.directory(self.directory)

    @property
    def ca(self) -> Path | None:
        return self.directory / "tls" / "ca.pem" if self.secure else None

    def environment(self) -> dict[str, str]:
        """For a process that is to be a client."""
        told = {"CLOCHE_URL": self.url, "CLOCHE_CREDS": str(self.credentials)}
        return told | ({"CLOCHE_CA": str(self.ca)} if self.secure else {})

    def password(self, user: str, realm: str = "") -> str:
        return secrets.read(self.credentials, user, realm).password

    def write(self) -> None:
        """What the servers read, for `nodes`. What was made before stays: see `write_all`."""
        if self.secure:
            certify(self.directory, self.where)
        write_all(self.directory, self.where, self._layout, self.nodes, self._realms)

    async def connect(self, user: str, *, realm: str = "", only: Sequence[str] = ()) -> Bus:
        """To any of the servers, or of those that are named."""
        url = addresses.url([each for each in self.where if not only or each.name in only], tls=self.secure)
        login, password = login_name(realm, user), await asyncio.to_thread(self.password, user, realm)
        bus = await connect(url, login, password, CLIENT, patience_s=READY_S, tls=tls.context(url, self.ca))
        return await self._open.enter_async_context(bus)

    async def provision(self, limits: Limits, realm: str = "") -> None:
        """Tried until the servers have found each other. Raises `Unavailable` when they do not."""
        async with await self.connect(ADMIN, realm=realm) as admin:
            await provision(admin, limits, self.nodes, wait_s=READY_S)


def on_free_ports(count: int) -> tuple[ServerAddress, ...]:
    """Of loopback: n1, n2 and so on."""
    ports = iter(free_ports(2 * count))
    return tuple(
        ServerAddress(name=f"n{number}", host="127.0.0.1", port=next(ports), route_port=next(ports))
        for number in range(1, count + 1)
    )
