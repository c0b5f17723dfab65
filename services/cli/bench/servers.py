"""NATS servers of our own on loopback, as `cloche nats config` sets them up, without TLS."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from contracts.errors import Unavailable
from contracts.streams import Limits
from infra.bus.connection import Bus, connect
from infra.bus.provision import provision
from infra.embedded import process, secrets
from infra.embedded.realm import Realm
from infra.embedded.users import ADMIN, login_name
from infra.nats import addresses
from infra.nats.addresses import ServerAddress
from infra.nats.directory import write_all
from infra.nats.server_conf import Layout
from infra.settings import Durability

READY_S = 60.0
LOOK_S = 0.05


class Servers(Struct, frozen=True, kw_only=True):
    url: str
    credentials: Path

    def password(self, user: str, realm: str = "") -> str:
        return secrets.read(self.credentials, user, realm).password

    async def connect(self, user: str, realm: str = "") -> Bus:
        login = login_name(realm, user)
        return await connect(self.url, login, self.password(user, realm), "bench", patience_s=READY_S)

    async def provision(self, replicas: Literal[1, 3], nodes: Sequence[str], realm: str = "") -> None:
        """Tried until the servers have found each other. Raises `Unavailable` when they do not."""
        async with await self.connect(ADMIN, realm) as admin:
            await provision(admin, Limits(replicas=replicas), nodes, wait_s=READY_S)


@contextlib.asynccontextmanager
async def servers_in(
    directory: Path,
    count: int,
    *,
    nodes: Sequence[str] = ("local",),
    realms: Sequence[Realm] = (Realm(),),
    durability: Durability = Durability.DISK,
) -> AsyncIterator[Servers]:
    """So many, each with a store of its own; nothing of them is left afterwards but the directory."""
    where = _on_free_ports(count)
    await asyncio.to_thread(directory.mkdir, mode=0o700, parents=True)
    layout = Layout(store=directory / "store" / "{server}", durability=durability)
    await asyncio.to_thread(write_all, directory, where, layout, nodes, realms)
    with contextlib.ExitStack() as running:
        for server in where:
            running.enter_context(_running(directory, server))
        for server in where:
            await _listens(server)
        servers = Servers(url=addresses.url(where, tls=False), credentials=secrets.directory(directory))
        yield servers


async def _listens(server: ServerAddress) -> None:
    """Before anybody asks, who would complain. Raises `Unavailable` when it does not."""
    for _ in range(int(READY_S / LOOK_S)):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(server.host, server.port)
            writer.close()
            return
        await asyncio.sleep(LOOK_S)
    raise Unavailable(f"{server.name} does not listen within {READY_S:g} s")


@contextlib.contextmanager
def _running(directory: Path, server: ServerAddress) -> Iterator[None]:
    log = directory / f"{server.name}.log"
    command = [str(process.binary()), "-c", str(directory / f"{server.name}.conf")]
    with log.open("ab") as words, subprocess.Popen(command, stdout=words, stderr=words) as running:
        try:
            yield
            if running.poll() is not None:
                raise Unavailable(f"a server has ended; its log: {log}")
        finally:
            running.terminate()


def _on_free_ports(count: int) -> tuple[ServerAddress, ...]:
    """All are held at once, so that no two are the same."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(2 * count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        ports = [int(probe.getsockname()[1]) for probe in probes]
    return tuple(
        ServerAddress(name=f"n{number}", host="127.0.0.1", port=ports[2 * number], route_port=ports[2 * number + 1])
        for number in range(count)
    )
