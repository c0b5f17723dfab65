"""A whole node of real processes, each of which can be killed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Self

from infra.bus.provision import provision
from infra.client import Cloche
from infra.configuration import load
from infra.embedded import endpoint
from infra.embedded.server import EmbeddedServer
from infra.keeper.client import KeeperClient
from infra.keeper.launcher import end_keeper
from infra.sandbox.providers import load_providers
from infra.settings import Settings
from tests.services.process import Process

SERVICES = ("spawner", "executor", "file_watcher", "health_monitor", "replay", "egress")
ROOT = Path(__file__).resolve().parents[2]
READY_S = 60.0
DEFAULTS = {
    "CLOCHE_DURABILITY": "process",
    "CLOCHE_ISOLATION": "local",
    "CLOCHE_POOL": "0",
    "CLOCHE_GATEWAY_PORT": "0",
}
"""Local whether or not an engine answers, no sandbox that no test asked for, and no port that others may have."""


def settings_in(data: Path, **values: str) -> Settings:
    return load({"CLOCHE_DATA": str(data), **DEFAULTS, **values})


class Service:
    """`python -m services.<name>`, as a supervisor would run it."""

    def __init__(self, name: str, data: Path, values: Mapping[str, str]) -> None:
        self.name = name
        self._data = data
        self._values = values
        self._process: Process | None = None
        self._draining: asyncio.Task[None] | None = None
        self.said: list[str] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Returns when it takes orders."""
        own = {"CLOCHE_DATA": str(self._data), "PYTHONPATH": str(ROOT)}
        self._process = await Process.start(self.name, {**os.environ, **DEFAULTS, **self._values, **own}, ROOT)
        ready = asyncio.Event()
        self._draining = asyncio.create_task(self._drain(self._process, ready))
        try:
            async with asyncio.timeout(READY_S):
                await ready.wait()
        except TimeoutError:
            raise AssertionError(f"{self.name} did not start: {self.said}") from None

    async def _drain(self, process: Process, ready: asyncio.Event) -> None:
        async for line in process.errors:
            self.said.append(line.decode(errors="replace").rstrip())
            if line.endswith(b": ready\n"):
                ready.set()

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            await self._ended(self._process)

    async def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return await self._ended(self._process)

    async def _ended(self, process: Process) -> int:
        code = await process.wait()
        if self._draining is not None:
            await asyncio.gather(self._draining, return_exceptions=True)
        return code


class Node:
    def __init__(self, data: Path, **values: str) -> None:
        self.settings = settings_in(data, **values)
        self.data = data
        self.server = EmbeddedServer.of(self.settings)
        self.services = {name: Service(name, data, values) for name in SERVICES}

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        async with await self.server.connect("admin") as admin:
            await provision(admin, self.settings.limits, [self.settings.node])
        try:
            await asyncio.gather(*(service.start() for service in self.services.values()))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for service in self.services.values():
            await service.kill()
        await end_sandboxes(self.data)
        await end_keeper(self.data, force=True)
        await self.server.aclose()

    async def restart(self, name: str) -> None:
        """SIGKILL, then a new one."""
        await self.services[name].kill()
        async with asyncio.timeout(READY_S):
            # As a supervisor, which has the server running before any service.
            while endpoint.find(self.data) is None:
                await asyncio.sleep(0.01)
        await self.services[name].start()

    def kill_server(self) -> None:
        """SIGKILL to nats-server; whoever watches over it starts it again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server.pid, signal.SIGKILL)

    async def kill_keeper(self) -> None:
        async with await KeeperClient.connect(self.data) as keeper:
            pid = (await keeper.hello()).pid
        os.kill(pid, signal.SIGKILL)

    def connect(self) -> "contextlib.AbstractAsyncContextManager[Cloche]":
        return Cloche.connect(self.settings)


async def end_sandboxes(data: Path) -> None:
    async with load_providers(data) as providers:
        for provider in providers.values():
            for sandbox in await provider.sandboxes():
                await provider.remove(sandbox)
            await provider.discard_blanks()


@contextlib.asynccontextmanager
async def node_in(data: Path, **values: str) -> AsyncIterator[tuple[Node, Cloche]]:
    async with Node(data, **values) as node, node.connect() as cloche:
        yield node, cloche


async def eventually(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    """For what the system gives no event for."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.02)
