"""Docker sandboxes: one hardened container each."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

import msgspec

from contracts.errors import (
    ClocheError,
    Invalid,
    SandboxCreationFailed,
    SandboxInvalidState,
    SandboxNotFound,
    SandboxRemovalFailed,
    SandboxStartFailed,
    SandboxStatsFailed,
    SandboxStopFailed,
    Unavailable,
)
from contracts.ids import SandboxId
from contracts.spec import SandboxSpec
from infra.docker.containers import ContainerInfo
from infra.docker.engine import Engine
from infra.docker.errors import Refused
from infra.docker.instance import instance_of
from infra.docker.stats import oom_kills
from infra.docker.stuck import freeing
from infra.observing import catalogue
from infra.sandbox.base import (
    Created,
    CreateRequest,
    DiskUsage,
    Inspection,
    ProviderEvent,
    SandboxState,
    Snapshot,
    Started,
    Stats,
    Use,
)
from infra.sandbox.docker.blanks import Blanks
from infra.sandbox.docker.checking import check_source, check_spec
from infra.sandbox.docker.deaths import DeathWatch, Life, Lives
from infra.sandbox.docker.ending import end_container
from infra.sandbox.docker.environment import container_environment
from infra.sandbox.docker.filling import fill_workspace
from infra.sandbox.docker.imaging import ImageSource
from infra.sandbox.docker.layout import DataFiles
from infra.sandbox.docker.making import Maker
from infra.sandbox.docker.measuring import group_use, measure_container
from infra.sandbox.docker.observing import Observation, observe, start_container
from infra.sandbox.docker.pausing import pause_container, resume_container
from infra.sandbox.docker.planning import container_name
from infra.sandbox.docker.record import Record, as_created, load_record, store_record, was_asked
from infra.sandbox.docker.sweeping import Sweeper
from infra.sandbox.forking import check_fork
from infra.sandbox.shape import shape_of
from infra.sandbox.trees import measure_tree
from infra.target import DockerTarget

logger = logging.getLogger(__name__)


class DockerProvider:
    """Sandboxes in `<data_dir>/containers`. They outlive this object and are found again by another.

    Every order raises `Unavailable` when the engine does not answer; entering raises it where there is none, unless
    there are sandboxes already: they are watched for, until the engine is back.
    """

    name = "docker"

    def __init__(self, data_dir: Path, engine: str | None) -> None:
        self._data = DataFiles(data_dir.resolve())
        self._engine = Engine(engine)
        self._images = ImageSource(self._engine)
        self._maker = Maker(self._engine, self._data)
        self._containers = self._maker.containers
        self._blanks = Blanks(self._maker, self._data)
        self._sweeper = Sweeper(self._engine, self._maker, self._data, self._blanks)
        self._lives = Lives()
        self._ended_here: set[str] = set()
        self._locks: WeakValueDictionary[SandboxId, asyncio.Lock] = WeakValueDictionary()

    async def create(self, request: CreateRequest) -> Created:
        sandbox = request.sandbox
        async with self._one_at_a_time(sandbox):
            record = await asyncio.to_thread(load_record, self._data.record(sandbox))
            if record is not None and not record.ready and record.shape != shape_of(request.spec):
                await self._discard(sandbox)
                record = None
            if record is None or not record.ready:
                record = await self._create(request, record)
        return self._as_created(sandbox, record)

    async def _create(self, request: CreateRequest, begun: Record | None) -> Record:
        check_spec(request.spec)
        check_fork(request.spec, request.fill)
        if request.fill is None:
            await asyncio.to_thread(check_source, request.spec, request.sandbox, self._data.data)
        try:
            return await self._finish(request, begun or await self._begin(request))
        except (Invalid, SandboxCreationFailed):
            await self._leave_nothing(request.sandbox)
            raise
        except (Refused, OSError) as error:
            await self._leave_nothing(request.sandbox)
            said = error.message if isinstance(error, Refused) else str(error)
            raise SandboxCreationFailed(f"cannot make {request.sandbox}: {said}") from error

    async def _begin(self, request: CreateRequest) -> Record:
        """A record on disk that accounts for everything made from now on."""
        image = await self._images.have(request.spec.docker.image)
        blank = await self._blanks.take(request.sandbox, shape_of(request.spec), image)
        catalogue.pool_takes.add("miss" if blank is None else "hit")
        return blank or await self._store(request.sandbox, await self._maker.begin(request.spec, image))

    async def _finish(self, request: CreateRequest, record: Record) -> Record:
        name = container_name(request.spec.agent_id, request.sandbox, record.key)
        made = await self._maker.make(record, name)
        workspace = self._maker.workspace(record)
        await asyncio.to_thread(fill_workspace, request.spec, request.sandbox, workspace, request.fill)
        built = container_environment(request, made)
        instance = await self._name(request.sandbox, made, name)
        whole = msgspec.structs.replace(made, name=name, env=built.env, env_blocked=built.blocked, instance=instance)
        return await self._store(request.sandbox, msgspec.structs.replace(whole, ready=True))

    async def _name(self, sandbox: SandboxId, record: Record, name: str) -> str | None:
        """Its instance, when it runs already, for it was a blank."""
        info = await self._maker.inspect(record)
        if info is None:
            raise SandboxCreationFailed(f"the container of {sandbox} was removed while it was made")
        if info.name.lstrip("/") != name:
            await self._containers.rename(record.container, name)
        if not info.state.is_up:
            return None
        instance = instance_of(info.id, info.state.started_at)
        self._lives.note(Life(sandbox, info.id, instance))
        return instance

    async def _leave_nothing(self, sandbox: SandboxId) -> None:
        try:
            await self._discard(sandbox)
        except SandboxRemovalFailed as error:
            logger.warning("%s", error.message)

    async def start(self, sandbox: SandboxId) -> Started:
        async with self._one_at_a_time(sandbox):
            seen = await self._observe(sandbox)
            if seen.inspection.state is SandboxState.CREATING:
                raise SandboxInvalidState(f"{sandbox} was never created to the end: create it again")
            record, info = seen.record, None
            if not seen.is_up:
                record, info = await self._start_anew(sandbox, record)
            info = info or await self._maker.inspect(record)
            return await self._started(sandbox, record, info)

    async def _start_anew(self, sandbox: SandboxId, record: Record) -> tuple[Record, ContainerInfo]:
        try:
            # Somebody may have removed the container; the workspace is still there.
            made = await self._maker.make(record, record.name)
        except SandboxCreationFailed as error:
            raise SandboxStartFailed(f"cannot start {sandbox}: {error.message}") from error
        if made != record:
            await self._store(sandbox, made)
        return made, await start_container(self._containers, made.container)

    async def _started(self, sandbox: SandboxId, record: Record, info: ContainerInfo | None) -> Started:
        if info is None or not info.state.is_up:
            raise SandboxStartFailed(f"{sandbox} ended at once")
        instance = instance_of(info.id, info.state.started_at)
        life = Life(sandbox, info.id, instance)
        self._lives.note(life)
        # An end before it was noted would be told to nobody.
        again = await self._maker.inspect(record)
        if again is None or not again.state.is_up:
            self._lives.forget(life)
            raise SandboxStartFailed(f"{sandbox} ended at once")
        if record.instance != instance or record.ending:
            await self._store(sandbox, msgspec.structs.replace(record, instance=instance, ending=False))
        return Started(instance=instance, pid=info.state.pid, enforcement=record.enforcement)

    async def stop(self, sandbox: SandboxId, grace_s: float = 10.0) -> None:
        async with self._order(sandbox, thaw=True):
            seen = await self._observe(sandbox)
            try:
                if seen.is_up:
                    await self._store(sandbox, msgspec.structs.replace(seen.record, ending=True))
                    self._ended_here.add(seen.inspection.instance or "")
                    await end_container(self._containers, seen, grace_s)
            except ClocheError as error:
                # It was not ended: if it dies later, somebody has to be told.
                self._ended_here.discard(seen.inspection.instance or "")
                await self._store(sandbox, seen.record)
                if not isinstance(error, Refused):
                    raise
                raise SandboxStopFailed(f"cannot stop {sandbox}: {error.message}") from error
            if seen.record.instance is not None:
                await self._store(sandbox, msgspec.structs.replace(seen.record, instance=None, ending=False))

    async def pause(self, sandbox: SandboxId) -> None:
        async with self._order(sandbox):
            seen = await self._observe(sandbox)
            if seen.inspection.state is SandboxState.PAUSED:
                return
            if seen.inspection.state is not SandboxState.RUNNING:
                raise SandboxInvalidState(f"{sandbox} is {seen.inspection.state}, not running")
            try:
                await pause_container(self._containers, seen.record.container)
            except Refused as error:
                raise SandboxInvalidState(f"{sandbox} cannot pause: {error.message}") from error

    async def resume(self, sandbox: SandboxId) -> None:
        async with self._order(sandbox, thaw=True):
            seen = await self._observe(sandbox)
            if not seen.is_up:
                raise SandboxInvalidState(f"{sandbox} is {seen.inspection.state}, not paused")
            try:
                if seen.inspection.state is SandboxState.PAUSED:
                    await resume_container(self._containers, seen.record.container)
            except Refused as error:
                raise SandboxInvalidState(f"{sandbox} cannot resume: {error.message}") from error

    async def remove(self, sandbox: SandboxId) -> None:
        async with self._order(sandbox, thaw=True):
            await self._discard(sandbox)

    async def _discard(self, sandbox: SandboxId) -> None:
        path = self._data.record(sandbox)
        try:
            record = await asyncio.to_thread(load_record, path)
        except SandboxInvalidState:
            # Its container is found by the sweep, for no record accounts for it any more.
            record = None
        if record is not None:
            await self._discard_container(sandbox, record)
        await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _discard_container(self, sandbox: SandboxId, record: Record) -> None:
        self._ended_here.add(record.instance or "")
        await self._store(sandbox, msgspec.structs.replace(record, ending=True))
        try:
            await self._maker.discard(record.key)
        except Unavailable:
            # If it dies now, that is not for this order, which never arrived.
            self._ended_here.discard(record.instance or "")
            await self._store(sandbox, record)
            raise

    async def inspect(self, sandbox: SandboxId) -> Inspection | None:
        try:
            seen = await self._observe(sandbox)
        except SandboxNotFound:
            return None
        if seen.is_up and seen.inspection.instance is not None:
            self._lives.note(Life(sandbox, seen.record.container, seen.inspection.instance))
        return seen.inspection

    async def created(self, sandbox: SandboxId) -> Created:
        return self._as_created(sandbox, await self._record(sandbox))

    async def sandboxes(self) -> tuple[SandboxId, ...]:
        return await asyncio.to_thread(self._data.sandbox_ids)

    async def stats(self, sandbox: SandboxId) -> Stats:
        seen = await self._observe(sandbox)
        if not seen.is_up or seen.inspection.pid is None:
            raise SandboxInvalidState(f"{sandbox} is {seen.inspection.state}, not running")
        use = await measure_container(self._engine, sandbox, seen.record.container)
        killed = await asyncio.to_thread(oom_kills, seen.inspection.pid)
        disk = await self.disk_usage(sandbox)
        if (await self._observe(sandbox)).inspection.instance != seen.inspection.instance:
            raise SandboxStatsFailed(f"{sandbox} ended while it was measured")
        return Stats(
            memory_bytes=use.memory_bytes, cpu_seconds=use.cpu_seconds, pids=use.pids, disk=disk, oom_kills=killed
        )

    async def use(self, sandbox: SandboxId, pid: int) -> Use:
        if (counted := await asyncio.to_thread(group_use, pid)) is not None:
            return counted
        used = await measure_container(self._engine, sandbox, (await self._record(sandbox)).container)
        return Use(memory_bytes=used.memory_bytes, cpu_seconds=used.cpu_seconds, pids=used.pids)

    async def oom_kills(self, sandbox: SandboxId) -> int | None:
        pid = (await self._observe(sandbox)).inspection.pid
        return None if pid is None else await asyncio.to_thread(oom_kills, pid)

    async def disk_usage(self, sandbox: SandboxId) -> DiskUsage:
        record = await self._record(sandbox)
        return await asyncio.to_thread(measure_tree, self._maker.workspace(record))

    async def environment(self, sandbox: SandboxId) -> dict[str, str]:
        return (await self._record(sandbox)).env

    async def target(self, sandbox: SandboxId) -> DockerTarget:
        record = await self._record(sandbox)
        if record.instance is None or not record.ready:
            raise SandboxInvalidState(f"{sandbox} is not started")
        return DockerTarget(
            engine=self._engine.address,
            container=record.container,
            instance=record.instance,
            user=record.user,
            shell=record.shell,
        )

    async def events(self) -> AsyncIterator[ProviderEvent]:
        watch = DeathWatch(self._engine, self._data.home, self._lives, self._was_asked)
        async with aclosing(watch.follow(self._note_lives)) as deaths:
            async for death in deaths:
                yield ProviderEvent(
                    sandbox=death.life.sandbox,
                    instance=death.life.instance,
                    kind="stopped" if death.asked else "died",
                    end=death.end,
                )

    async def _was_asked(self, life: Life) -> bool:
        if life.instance in self._ended_here:
            return True
        return await asyncio.to_thread(was_asked, self._data.record(life.sandbox), life.instance)

    async def _note_lives(self) -> None:
        for sandbox in await self.sandboxes():
            with suppress(SandboxInvalidState):
                await self.inspect(sandbox)

    async def snapshot(self, sandbox: SandboxId) -> Snapshot:
        raise Invalid(f"snapshot of {sandbox}: Docker sandboxes have no snapshots yet")

    async def prepare(self, spec: SandboxSpec) -> None:
        check_spec(spec)
        if spec.docker.mounts:
            raise Invalid("docker.mounts: a blank has none, for others may have taken their place when it is wanted")
        await self._blanks.make(spec, await self._images.here(spec.docker.image))

    async def blanks(self) -> dict[str, int]:
        return await self._blanks.ready()

    async def discard_blanks(self, keep: Mapping[str, int] | None = None) -> None:
        await self._blanks.discard(keep or {})

    async def sweep(self) -> None:
        await self._sweeper.sweep()

    @asynccontextmanager
    async def _order(self, sandbox: SandboxId, *, thaw: bool = False) -> AsyncIterator[None]:
        """One at a time, and not held up for ever by what goes on inside the container."""
        async with self._one_at_a_time(sandbox):
            container = None
            with suppress(SandboxInvalidState):
                record = await asyncio.to_thread(load_record, self._data.record(sandbox))
                container = None if record is None else record.container
            async with freeing(container, thaw=thaw):
                yield

    def _one_at_a_time(self, sandbox: SandboxId) -> asyncio.Lock:
        return self._locks.setdefault(sandbox, asyncio.Lock())

    async def _record(self, sandbox: SandboxId) -> Record:
        record = await asyncio.to_thread(load_record, self._data.record(sandbox))
        if record is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox} on this node")
        return record

    async def _store(self, sandbox: SandboxId, record: Record) -> Record:
        await asyncio.to_thread(store_record, self._data.record(sandbox), record)
        return record

    async def _observe(self, sandbox: SandboxId) -> Observation:
        record = await self._record(sandbox)
        return observe(record, await self._maker.inspect(record))

    def _as_created(self, sandbox: SandboxId, record: Record) -> Created:
        return as_created(sandbox, record, self._maker.workspace(record))

    async def aclose(self) -> None:
        await self._engine.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self._engine.ping()
        except Unavailable as error:
            if not await self.sandboxes():
                raise
            # Somebody must be there to tell what became of them.
            self._engine.expect()
            logger.warning("sandboxes of an engine that is away are watched for: %s", error.message)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
