"""Realms on one real server, each with something of its own in every place where a Cloche keeps or tells things."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from contracts.streams import COMMANDS_STREAM, SANDBOXES_BUCKET, VITALS_STREAM, Limits
from infra.blobs.blobs import Blobs
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.bus.provision import provision
from infra.bus.publisher import append
from infra.embedded.realm import Realm
from infra.embedded.server import EmbeddedServer
from infra.embedded.users import ADMIN, FAMILIES
from infra.settings import Durability

USERS = (*FAMILIES, ADMIN)
RPC = {
    "executor": "cloche.rpc.local.sb.files.read",
    "spawner": "cloche.rpc.local.sb.git.diff",
    "file_watcher": "cloche.rpc.local.sb.watch.flush",
    "egress": "cloche.rpc.local.sb.egress.policy",
    "replay": "cloche.rpc.state.sandboxes",
}
TOLD = "cloche.replay.r1.sb.sandbox.created"


def secret_of(realm: str) -> bytes:
    return f"what only {realm} may see".encode()


class Tenants:
    """Connections are opened once, and closed with it."""

    def __init__(self, server: EmbeddedServer, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack
        self._open: dict[tuple[str, str], Bus] = {}

    async def connect(self, realm: str, user: str) -> Bus:
        if (realm, user) not in self._open:
            bus = await self._stack.enter_async_context(await self.server.connect(user, realm=realm))
            self._open[realm, user] = bus
        return self._open[realm, user]

    async def everybody(self, realm: str) -> dict[str, Bus]:
        return {user: await self.connect(realm, user) for user in USERS}

    async def settle(self, realm: str) -> None:
        """Everything that its users have sent is done."""
        for user in USERS:
            await (await self.connect(realm, user)).client.flush()

    async def live(self, realm: str, number: int = 0) -> None:
        """Something happens in every place, with the secret of the realm in it."""
        secret, name = secret_of(realm), f"{realm}{number}"
        spawner, client = await self.connect(realm, "spawner"), await self.connect(realm, "client")
        replay, monitor = await self.connect(realm, "replay"), await self.connect(realm, "health_monitor")
        await append(spawner, f"cloche.log.{name}.sandbox.created", secret, name)
        order = f"cloche.cmd.local.{name}.command.run"
        await append(client, order, secret, f"{name}.c", stream=COMMANDS_STREAM)
        await append(monitor, f"cloche.vitals.{name}.heartbeat", secret, f"{name}.v", stream=VITALS_STREAM)
        await Bucket(replay, SANDBOXES_BUCKET).put(name, secret)
        await Blobs(await self.connect(realm, "file_watcher")).put(secret + str(number).encode())
        await replay.publish(TOLD, secret)
        await replay.client.flush()

    async def answer(self, realm: str, asked: list[bytes]) -> None:
        """Its services answer requests with its secret, and note what they were asked."""
        for user, subject in RPC.items():
            await _answer(await self.connect(realm, user), subject, secret_of(realm), asked)

    async def state(self, realm: str) -> dict[str, Any]:
        """Of every stream and consumer: what is stored, what was delivered and acknowledged."""
        admin = await self.connect(realm, ADMIN)
        found: dict[str, Any] = {}
        for stream in (await admin.api("STREAM.LIST"))["streams"]:
            name = stream["config"]["name"]
            found[name] = stream["config"], stream["state"]
            for each in (await admin.api(f"CONSUMER.LIST.{name}"))["consumers"]:
                counts = {key: each.get(key) for key in ("delivered", "ack_floor", "num_ack_pending", "num_pending")}
                found[f"{name}.{each['name']}"] = each["config"], counts
        return found


@asynccontextmanager
async def tenants_in(directory: Path, *realms: Realm) -> AsyncIterator[Tenants]:
    server = EmbeddedServer(directory / "data", realms=[Realm(), *realms], durability=Durability.PROCESS)
    async with server, AsyncExitStack() as stack:
        tenants = Tenants(server, stack)
        for realm in realms:
            await provision(await tenants.connect(realm.name, ADMIN), Limits(), ["local"])
        yield tenants


async def _answer(bus: Bus, subject: str, words: bytes, asked: list[bytes]) -> None:
    def respond(_subject: bytes, reply: bytes, data: bytes, _headers: bytes | None) -> None:
        asked.append(data)
        asyncio.get_running_loop().create_task(bus.publish(reply.decode(), words))

    await bus.tap(subject, respond)
