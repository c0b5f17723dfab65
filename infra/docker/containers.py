"""The engine's containers."""

import asyncio
from collections.abc import Mapping

import msgspec
from aiodocker.containers import DockerContainer
from msgspec import Struct, field

from contracts.errors import Unavailable
from infra.docker.engine import ANY_HOST, ASK_S, Engine
from infra.docker.errors import CONFLICT, NOT_FOUND, Refused, asking
from infra.docker.plan import ContainerPlan, engine_body

MAKE_S = 60.0
END_S = 60.0


class ContainerState(Struct, frozen=True, kw_only=True, rename="pascal"):
    status: str
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    oom_killed: bool = field(name="OOMKilled", default=False)
    started_at: str = ""
    finished_at: str = ""

    @property
    def is_up(self) -> bool:
        return self.status in {"running", "paused"}


class ContainerConfig(Struct, frozen=True, kw_only=True, rename="pascal"):
    labels: dict[str, str] | None = None


class ContainerInfo(Struct, frozen=True, kw_only=True, rename="pascal"):
    id: str
    name: str
    image: str
    """The image's id."""
    state: ContainerState
    config: ContainerConfig
    exec_ids: tuple[str, ...] | None = field(name="ExecIDs", default=None)
    """Processes started beside its first one, of which the engine still knows."""


class ContainerSummary(Struct, frozen=True, kw_only=True, rename="pascal"):
    id: str
    created: int
    """Seconds since 1970."""
    state: str
    labels: dict[str, str] | None = None


class Containers:
    """Every call raises `Refused` or `Unavailable`; what is there or gone already is fine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def create(self, plan: ContainerPlan, name: str) -> str:
        """Its id. Raises `Refused` (409) when the name is taken."""
        async with asking(f"make the container {name}", MAKE_S):
            return (await (await self._engine.client()).containers.create(engine_body(plan), name=name)).id

    async def inspect(self, container: str) -> ContainerInfo | None:
        try:
            async with asking(f"inspect container {container[:12]}", ASK_S):
                return msgspec.convert(await (await self._one(container)).show(), ContainerInfo)
        except Refused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def labelled(self, labels: Mapping[str, str]) -> tuple[ContainerSummary, ...]:
        """All that carry these labels, running or not."""
        wanted = msgspec.json.encode({"label": [f"{name}={value}" for name, value in labels.items()]}).decode()
        async with asking("list containers", ASK_S):
            return await self._engine.get("containers/json", tuple[ContainerSummary, ...], all="1", filters=wanted)

    async def start(self, container: str) -> None:
        async with asking(f"start container {container[:12]}", MAKE_S):
            await (await self._one(container)).start()

    async def kill(self, container: str, signal: str) -> None:
        """One that does not run is fine."""
        try:
            async with asking(f"signal container {container[:12]}", ASK_S):
                await (await self._one(container)).kill(signal=signal)
        except Refused as error:
            if error.status not in {NOT_FOUND, CONFLICT}:
                raise

    async def ended(self, container: str, within_s: float) -> bool:
        """Waits until it does not run; False when it still does after that time."""
        try:
            async with asking(f"wait for container {container[:12]}", within_s + ASK_S):
                async with asyncio.timeout(within_s) as limit:
                    await (await self._one(container)).wait()
        except Refused as error:
            if error.status != NOT_FOUND:
                raise
        except Unavailable:
            if not limit.expired():
                raise
            return False
        return True

    async def pause(self, container: str) -> None:
        async with asking(f"pause container {container[:12]}", ASK_S):
            await (await self._one(container)).pause()

    async def unpause(self, container: str) -> None:
        async with asking(f"resume container {container[:12]}", ASK_S):
            await (await self._one(container)).unpause()

    async def rename(self, container: str, name: str) -> None:
        async with asking(f"rename container {container[:12]}", ASK_S):
            await (await self._one(container)).rename(name)

    async def remove(self, container: str) -> None:
        """Kills it first when it runs. Its unnamed volumes go with it."""
        try:
            async with asking(f"remove container {container[:12]}", END_S):
                await (await self._one(container)).delete(force=True, v=True)
        except Refused as error:
            if error.status != NOT_FOUND:
                raise

    async def has_file(self, container: str, path: str) -> bool:
        """Whether its file system has something at that path. It need not run."""
        async with asking(f"look for {path} in container {container[:12]}", ASK_S):
            session = (await self._engine.client()).session
            address = f"{ANY_HOST}/containers/{container}/archive"
            async with session.head(address, params={"path": path}) as response:
                return response.ok

    async def _one(self, container: str) -> DockerContainer:
        return (await self._engine.client()).containers.container(container)
