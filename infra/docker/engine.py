"""One engine, and a connection to it that is opened when it is first needed."""

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

import aiodocker
import msgspec
from msgspec import Struct, field

from contracts.errors import Unavailable
from infra.docker.connecting import connect
from infra.docker.errors import Refused, asking
from infra.docker.finding import SOCKETS, UNIX

PING_S = 10.0
"""One that is not there says so at once; a busy one may take its time."""
ASK_S = 30.0
ANY_HOST = "http://docker"
"""The connection is a unix socket: the name in an address means nothing."""

T = TypeVar("T")


class EngineInfo(Struct, frozen=True, kw_only=True, rename="pascal"):
    """What the engine says about its machine."""

    architecture: str
    cpus: int = field(name="NCPU", default=1)
    cgroup_version: str = "1"
    memory_limit: bool = False
    swap_limit: bool = False
    cpu_quota: bool = field(name="CpuCfsQuota", default=False)
    pids_limit: bool = False
    root_dir: str = field(name="DockerRootDir", default="/var/lib/docker")
    security_options: tuple[str, ...] | None = ()


class Engine:
    """Every call raises `Unavailable` when no engine answers in time. Belongs to one event loop."""

    def __init__(self, address: str | None) -> None:
        self.address = address or ""
        self._stack = AsyncExitStack()
        self._client: aiodocker.Docker | None = None
        self._info: EngineInfo | None = None

    async def client(self) -> aiodocker.Docker:
        if not self.address:
            raise Unavailable("there is no Docker engine here: no DOCKER_HOST, and no socket where it usually is")
        if self._client is None:
            self._client = await self._stack.enter_async_context(connect(self.address))
        return self._client

    def expect(self) -> None:
        """Where no engine was found: one may come where it usually is."""
        self.address = self.address or f"{UNIX}{SOCKETS[0]}"

    async def ping(self) -> None:
        async with asking("reach the Docker engine", PING_S):
            await (await self.client()).version()

    async def takes_calls(self) -> bool:
        """False for one that is about to end, too: it answers on connections that it has, and takes no new ones."""
        try:
            async with asyncio.timeout(PING_S):
                _, writer = await asyncio.open_unix_connection(self.address.removeprefix(UNIX))
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def info(self) -> EngineInfo:
        """Asked once."""
        if self._info is None:
            async with asking("ask the engine about its machine", ASK_S):
                self._info = msgspec.convert(await (await self.client()).system.info(), EngineInfo)
        return self._info

    async def get(self, path: str, answer: type[T], **params: str) -> T:
        """For what aiodocker has no way to ask. To be called within `asking`."""
        async with (await self.client()).session.get(f"{ANY_HOST}/{path}", params=params) as response:
            body = await response.read()
            if not response.ok:
                raise Refused(response.status, body.decode(errors="replace")[:1000])
            return msgspec.json.decode(body, type=answer)

    async def aclose(self) -> None:
        self._client = None
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
