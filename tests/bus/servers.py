"""Real servers for tests: own directory, own port, own users, ready in about 50 ms."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from contracts.errors import Failure
from contracts.streams import Limits
from infra.bus.connection import Bus
from infra.bus.provision import provision
from infra.embedded import process
from infra.embedded.server import EmbeddedServer
from infra.settings import Durability


class Server:
    """A provisioned server. Every bus that it opened is closed with it."""

    def __init__(self, embedded: EmbeddedServer, stack: contextlib.AsyncExitStack) -> None:
        self.embedded = embedded
        self._stack = stack

    @property
    def url(self) -> str:
        return self.embedded.url

    @property
    def data(self) -> Path:
        return self.embedded.data

    def password(self, user: str) -> str:
        return self.embedded.password(user)

    async def connect(self, user: str) -> Bus:
        return await self._stack.enter_async_context(await self.embedded.connect(user))

    async def kill(self) -> None:
        """SIGKILL, and back as soon as it is dead. Its keeper starts it again."""
        identity = process.identify(self.embedded.pid)
        if identity is None:
            return
        os.kill(identity.pid, signal.SIGKILL)
        await until(lambda: not identity.alive)

    async def kill_and_wait(self) -> None:
        """SIGKILL, and back when the next one answers."""
        before = self.embedded.pid
        await self.kill()
        await until(lambda: self.embedded.pid not in (0, before))


@contextlib.asynccontextmanager
async def nats_in(
    directory: Path, *, durability: str = "process", nodes: tuple[str, ...] = ("local",), provisioned: bool = True
) -> AsyncIterator[Server]:
    embedded = EmbeddedServer(directory / "data", nodes=nodes, durability=Durability(durability))
    async with embedded, contextlib.AsyncExitStack() as stack:
        server = Server(embedded, stack)
        if provisioned:
            async with await embedded.connect("admin") as admin:
                await provision(admin, Limits(), nodes)
        yield server


async def until(condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = 30) -> None:
    """Bounded waiting for what nobody announces."""
    async with asyncio.timeout(seconds):
        while True:
            met = condition()
            if met if isinstance(met, bool) else await met:
                return
            await asyncio.sleep(0.01)


async def stored(admin: Bus, stream: str = "CLOCHE_LOG") -> int:
    info: dict[str, Any] = await admin.api(f"STREAM.INFO.{stream}")
    return int(info["state"]["messages"])


def dead_letter(
    subject: str, raw: bytes, failure: Failure, /, *, delivered: int, sequence: int
) -> tuple[str, bytes, str]:
    """Written as the spawner."""
    told = {"subject": subject, "size": len(raw), "why": failure.message, "delivered": delivered}
    return "cloche.log._.dead_letter.spawner", json.dumps(told).encode(), f"spawner.dead.{sequence}"
