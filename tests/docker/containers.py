"""Docker sandboxes for tests of the provider itself, and commands in them straight through the engine."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiodocker
import msgspec

from contracts.spec import Docker, Isolation, Resources, SandboxSpec
from infra.docker.connecting import connect
from infra.docker.finding import find_engine
from infra.sandbox.base import CreateRequest, ProviderEvent
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.planning import HOME_LABEL
from infra.sandbox.docker.provider import DockerProvider
from tests.images import busybox, require_docker

DEADLINE_S = 30.0


def engine() -> str:
    require_docker()
    address = find_engine()
    assert address is not None
    return address


def spec(image: str | None = None, **parts: Any) -> SandboxSpec:
    small = Resources(memory_mb=512, disk_mb=1024)
    given = {"isolation": Isolation.DOCKER, "resources": small, "docker": Docker(image=image or busybox())}
    return SandboxSpec(**{**given, **parts})


def request(sandbox: str = "sb-1", wanted: SandboxSpec | None = None, **host_env: str) -> CreateRequest:
    return CreateRequest(sandbox=sandbox, node="node-1", spec=wanted or spec(), host_env=host_env)


def with_docker(**parts: Any) -> SandboxSpec:
    return spec(docker=msgspec.structs.replace(Docker(image=busybox()), **parts))


@asynccontextmanager
async def a_provider(data: Path, address: str | None = None) -> AsyncIterator[DockerProvider]:
    """Whatever a test leaves in the engine is removed with its data directory."""
    async with DockerProvider(data, address or engine()) as provider:
        try:
            yield provider
        finally:
            for sandbox in await provider.sandboxes():
                await provider.remove(sandbox)
            await provider.discard_blanks()


@asynccontextmanager
async def a_sandbox(data: Path, wanted: SandboxSpec | None = None) -> AsyncIterator[DockerProvider]:
    """`sb-1`, running."""
    async with a_provider(data) as provider:
        await provider.create(request(wanted=wanted))
        await provider.start("sb-1")
        yield provider


class Result(NamedTuple):
    code: int | None
    out: str


async def run(provider: DockerProvider, *argv: str, sandbox: str = "sb-1") -> Result:
    """As a keeper would: with the sandbox's user, environment and directory."""
    target = await provider.target(sandbox)
    async with asyncio.timeout(DEADLINE_S), connect(target.engine) as docker:
        execution = await docker.containers.container(target.container).exec(
            argv,
            user=target.user,
            environment=await provider.environment(sandbox),
            workdir=(await provider.created(sandbox)).workspace,
        )
        out = bytearray()
        async with execution.start(detach=False) as stream:
            while (message := await stream.read_out()) is not None:
                out += message.data
        return Result((await execution.inspect())["ExitCode"], out.decode())


async def sh(provider: DockerProvider, script: str, sandbox: str = "sb-1") -> Result:
    return await run(provider, "/bin/sh", "-c", script, sandbox=sandbox)


@asynccontextmanager
async def engine_client(address: str | None = None) -> AsyncIterator[aiodocker.Docker]:
    async with connect(address or engine()) as docker:
        yield docker


class Left(NamedTuple):
    containers: list[str]
    volumes: list[str]
    files: list[str]


async def left_of(data: Path, address: str | None = None) -> Left:
    """What the engine and the disk still have of a data directory's sandboxes."""
    files = DataFiles(data.resolve())
    label = f"{HOME_LABEL}={files.home}"
    async with engine_client(address) as docker:
        containers = await docker.containers.list(all=True, filters=msgspec.json.encode({"label": [label]}).decode())
        volumes = await docker.volumes.list(filters={"label": [label]})  # type: ignore[no-untyped-call]
    there = [str(path.relative_to(files.root)) for path in files.root.rglob("*") if path.is_file()]
    return Left(
        sorted(each.id for each in containers),
        sorted(each["Name"] for each in volumes["Volumes"] or []),
        sorted(name for name in (*there, *files.container_keys()) if not name.startswith("idle-")),
    )


class Deaths:
    """Collects a provider's events from when it is entered."""

    def __init__(self, provider: DockerProvider) -> None:
        self._events = provider.events()
        self._queue: asyncio.Queue[ProviderEvent] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._collect())
        return self

    async def _collect(self) -> None:
        async for event in self._events:
            self._queue.put_nowait(event)

    async def next(self) -> ProviderEvent:
        async with asyncio.timeout(DEADLINE_S):
            return await self._queue.get()

    def is_quiet(self) -> bool:
        return self._queue.empty()

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """For what nobody gives an event for."""
    deadline = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.02)


def unique(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(4)}"
