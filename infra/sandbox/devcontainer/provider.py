"""Devcontainer sandboxes: an image and commands as a project's devcontainer.json has them, in a Docker sandbox."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

import msgspec

from contracts.errors import (
    Invalid,
    SandboxCreationFailed,
    SandboxInvalidState,
    SandboxNotFound,
    SandboxRemovalFailed,
    SandboxStopFailed,
    Unavailable,
)
from contracts.ids import SandboxId
from contracts.spec import Isolation, SandboxSpec
from infra.docker.engine import Engine
from infra.docker.errors import Refused
from infra.sandbox.base import (
    Created,
    CreateRequest,
    DiskUsage,
    Inspection,
    Provider,
    ProviderEvent,
    SandboxState,
    Snapshot,
    Started,
    Stats,
    Use,
)
from infra.sandbox.devcontainer.cli import find_cli
from infra.sandbox.devcontainer.images import BUILT, REPOSITORY, list_tags, remove_images
from infra.sandbox.devcontainer.lifecycle import AT_EACH_START, Lifecycle
from infra.sandbox.devcontainer.making import make_image
from infra.sandbox.devcontainer.origin import check_spec, project_files
from infra.sandbox.devcontainer.project import read_project
from infra.sandbox.devcontainer.record import DataFiles, Record
from infra.sandbox.forking import check_fork
from infra.sandbox.trees import remove_tree
from infra.target import DockerTarget, Target

YOUNG_S = 60.0
"""What is younger may be in the making: a sweep leaves it."""


class DevcontainerProvider:
    """The container is a Docker sandbox of an image of the project's, with its own place in the data directory.

    So its isolation is Docker's, and nothing that a project, an image or a feature asks for can change it.
    Lifecycle commands run in it when it starts, before `start` returns.
    """

    name = "devcontainer"

    def __init__(self, data: DataFiles, docker: Provider, engine: Engine) -> None:
        self._data = data
        self._docker = docker
        self._engine = engine
        self._locks: WeakValueDictionary[SandboxId, asyncio.Lock] = WeakValueDictionary()

    async def create(self, request: CreateRequest) -> Created:
        sandbox = request.sandbox
        async with self._one_at_a_time(sandbox):
            check_spec(request.spec, self._data.data, restored=request.fill is not None)
            check_fork(request.spec, request.fill)
            known = await asyncio.to_thread(self._data.load, sandbox)
            record = known or await self._make(request)
            docker = msgspec.structs.replace(request.spec.docker, image=record.image.name)
            spec = msgspec.structs.replace(request.spec, isolation=Isolation.DOCKER, docker=docker)
            try:
                return await self._docker.create(msgspec.structs.replace(request, spec=spec))
            except Invalid:
                # It can never be, and nobody will come to remove what was made for it.
                if known is None:
                    await self._discard(sandbox, record)
                raise

    async def _make(self, request: CreateRequest) -> Record:
        self._require_cli(request.sandbox)
        spec, scratch = request.spec, self._data.directory(request.sandbox)
        await asyncio.to_thread(scratch.mkdir, mode=0o700, parents=True, exist_ok=True)
        try:
            async with project_files(spec, request.sandbox, scratch, request.fill) as files:
                project = await asyncio.to_thread(read_project, files, spec.devcontainer, spec.workspace.path)
                tag = self._data.tag(request.sandbox)
                image = await make_image(self._engine, project, files, spec, tag, scratch, self._data.home)
            record = Record(image=image, workspace=spec.workspace.path)
            await asyncio.to_thread(self._data.store, request.sandbox, record)
        except BaseException:
            await asyncio.to_thread(remove_tree, scratch)
            raise
        return record

    def _require_cli(self, sandbox: SandboxId) -> None:
        try:
            find_cli()
        except Unavailable as error:
            # Trying again soon will not bring it.
            raise SandboxCreationFailed(f"cannot make {sandbox}: {error.message}") from error

    async def start(self, sandbox: SandboxId) -> Started:
        async with self._one_at_a_time(sandbox):
            record = await self._record(sandbox)
            started = await self._docker.start(sandbox)
            if record.instance != started.instance:
                await self._run_commands(sandbox, record)
                done = msgspec.structs.replace(record, begun=True, instance=started.instance)
                await asyncio.to_thread(self._data.store, sandbox, done)
        return started

    async def _run_commands(self, sandbox: SandboxId, record: Record) -> None:
        wanted = record.image.lifecycle
        if not wanted or (record.begun and AT_EACH_START not in wanted):
            return
        target = await self._docker.target(sandbox)
        assert isinstance(target, DockerTarget)
        env = await self._docker.environment(sandbox)
        commands = Lifecycle(record.image.name, record.workspace, env, self._data.directory(sandbox))
        try:
            await commands.run(self._engine, target, again=record.begun)
        except BaseException:
            await asyncio.shield(self._end(sandbox))
            raise

    async def _end(self, sandbox: SandboxId) -> None:
        # It stays on record as started, and the next start or removal ends it.
        with suppress(SandboxStopFailed):
            await self._docker.stop(sandbox, grace_s=0)

    async def stop(self, sandbox: SandboxId, grace_s: float = 10.0) -> None:
        async with self._one_at_a_time(sandbox):
            await self._docker.stop(sandbox, grace_s)

    async def pause(self, sandbox: SandboxId) -> None:
        await self._docker.pause(sandbox)

    async def resume(self, sandbox: SandboxId) -> None:
        await self._docker.resume(sandbox)

    async def remove(self, sandbox: SandboxId) -> None:
        async with self._one_at_a_time(sandbox):
            await self._docker.remove(sandbox)
            record = None
            with suppress(SandboxInvalidState):
                record = await asyncio.to_thread(self._data.load, sandbox)
            await self._discard(sandbox, record)

    async def _discard(self, sandbox: SandboxId, record: Record | None) -> None:
        tags = self._tags(sandbox) if record is None else record.image.tags
        try:
            await remove_images(self._engine, tags, () if record is None else record.image.untagged)
            await asyncio.to_thread(remove_tree, self._data.directory(sandbox))
        except (Refused, OSError) as error:
            raise SandboxRemovalFailed(f"cannot remove the image of {sandbox}: {error}") from error

    def _tags(self, sandbox: SandboxId) -> tuple[str, ...]:
        tag = self._data.tag(sandbox)
        return (f"{REPOSITORY}:{tag}", f"{REPOSITORY}:{tag}{BUILT}")

    async def inspect(self, sandbox: SandboxId) -> Inspection | None:
        seen = await self._docker.inspect(sandbox)
        if seen is None and await asyncio.to_thread(self._data.load, sandbox) is not None:
            return Inspection(state=SandboxState.CREATING, detail="its image is made, its container not yet")
        return seen

    async def created(self, sandbox: SandboxId) -> Created:
        return await self._docker.created(sandbox)

    async def sandboxes(self) -> tuple[SandboxId, ...]:
        begun = await asyncio.to_thread(self._data.sandbox_ids)
        return tuple(sorted({*begun, *await self._docker.sandboxes()}))

    async def stats(self, sandbox: SandboxId) -> Stats:
        return await self._docker.stats(sandbox)

    async def use(self, sandbox: SandboxId, pid: int) -> Use:
        return await self._docker.use(sandbox, pid)

    async def oom_kills(self, sandbox: SandboxId) -> int | None:
        return await self._docker.oom_kills(sandbox)

    async def disk_usage(self, sandbox: SandboxId) -> DiskUsage:
        return await self._docker.disk_usage(sandbox)

    async def environment(self, sandbox: SandboxId) -> dict[str, str]:
        return await self._docker.environment(sandbox)

    async def target(self, sandbox: SandboxId) -> Target:
        return await self._docker.target(sandbox)

    def events(self) -> AsyncIterator[ProviderEvent]:
        return self._docker.events()

    async def snapshot(self, sandbox: SandboxId) -> Snapshot:
        return await self._docker.snapshot(sandbox)

    async def prepare(self, spec: SandboxSpec) -> None:  # noqa: ARG002 as the port has it
        raise Invalid("devcontainer sandboxes have no blanks: what they are made from is in each project")

    async def blanks(self) -> dict[str, int]:
        return {}

    async def discard_blanks(self, keep: Mapping[str, int] | None = None) -> None:
        """There are none."""

    async def sweep(self) -> None:
        before = time.time() - YOUNG_S
        await self._docker.sweep()
        for sandbox in await asyncio.to_thread(self._data.unfinished, before):
            lock = self._one_at_a_time(sandbox)
            if not lock.locked():
                async with lock:
                    await self._discard(sandbox, None)
        kept = {self._data.tag(sandbox) for sandbox in await asyncio.to_thread(self._data.sandbox_ids)}
        for tag in await list_tags(self._engine, f"{self._data.home}-", before):
            if tag.removesuffix(BUILT) not in kept and tag not in kept:
                await remove_images(self._engine, (f"{REPOSITORY}:{tag}",))

    def _one_at_a_time(self, sandbox: SandboxId) -> asyncio.Lock:
        return self._locks.setdefault(sandbox, asyncio.Lock())

    async def _record(self, sandbox: SandboxId) -> Record:
        record = await asyncio.to_thread(self._data.load, sandbox)
        if record is None:
            raise SandboxNotFound(f"there is no devcontainer sandbox {sandbox} on this node")
        return record

    async def aclose(self) -> None:
        await self._docker.aclose()
        await self._engine.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self._docker.__aenter__()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
