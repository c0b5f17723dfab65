"""Local sandboxes: bubblewrap, nothing but Linux and Python needed."""

import asyncio
import resource
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError
from types import TracebackType
from typing import Any, Literal, Self
from weakref import WeakValueDictionary

import msgspec

from contracts.errors import (
    Invalid,
    SandboxInvalidState,
    SandboxNotFound,
    SandboxRemovalFailed,
    SandboxStartFailed,
    SandboxStopFailed,
    Unavailable,
)
from contracts.ids import SandboxId
from contracts.spec import SandboxSpec
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
from infra.sandbox.local.blanks import (
    all_blanks,
    count_ready,
    is_ready,
    make_blank,
    new_blank,
    set_aside,
    shape_in,
    take_or_make,
)
from infra.sandbox.local.cgroup_places import find_place, open_cgroup
from infra.sandbox.local.control import InitConnection
from infra.sandbox.local.deaths import Death, DeathWatch
from infra.sandbox.local.discarding import discard, empty_trash
from infra.sandbox.local.ending import end_sandbox
from infra.sandbox.local.freezing import freeze, freezer
from infra.sandbox.local.launching import launch_sandbox, wait_for_init
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.limits import enforcement, hold_by_group, process_limit
from infra.sandbox.local.liveness import is_life_lock_held
from infra.sandbox.local.making import as_created
from infra.sandbox.local.measuring import measure_sandbox, measure_use
from infra.sandbox.local.observing import HELLO_TIMEOUT_S, Observation, explain_end, observe
from infra.sandbox.local.processes import Identity
from infra.sandbox.local.record import Record, load_record, store_record
from infra.sandbox.trees import measure_tree
from infra.target import LocalTarget

UP = (SandboxState.RUNNING, SandboxState.PAUSED)


def make_provider(data_dir: Path) -> "LocalProvider":
    return LocalProvider(data_dir)


class LocalProvider:
    """Sandboxes in `<data_dir>/sandboxes`. They outlive this object and are found again by another."""

    name = "local"

    def __init__(self, data_dir: Path) -> None:
        self._data = DataFiles(data_dir.resolve())
        self._deaths = DeathWatch()
        self._ended_here: set[str] = set()
        self._preparing: set[SandboxFiles] = set()
        self._locks: WeakValueDictionary[SandboxId, asyncio.Lock] = WeakValueDictionary()

    async def create(self, request: CreateRequest) -> Created:
        files = self._data.of(request.sandbox)
        async with self._one_at_a_time(request.sandbox):
            record = await asyncio.to_thread(take_or_make, request, self._data)
            if record.identity is not None:
                await self._watch(record, record.identity)
        return as_created(record, files)

    async def prepare(self, spec: SandboxSpec) -> None:
        files = new_blank(spec, self._data)
        self._preparing.add(files)
        try:
            await self._start_anew(await asyncio.to_thread(make_blank, spec, self._data, files), files)
        finally:
            self._preparing.discard(files)

    async def blanks(self) -> dict[str, int]:
        return await asyncio.to_thread(count_ready, self._data)

    async def discard_blanks(self, keep: Mapping[str, int] | None = None) -> None:
        wanted = Counter(keep or {})
        for files in await asyncio.to_thread(all_blanks, self._data):
            if wanted[shape_in(files)] > 0 and await asyncio.to_thread(is_ready, files):
                wanted[shape_in(files)] -= 1
            elif files not in self._preparing:
                await self._discard(files)

    async def sweep(self) -> None:
        await self.discard_blanks(await self.blanks())

    async def _discard(self, files: SandboxFiles) -> None:
        aside = await asyncio.to_thread(set_aside, files)
        if aside is None:
            return
        record = await asyncio.to_thread(load_record, aside.record)
        if record is not None:
            await self._end(record, aside, grace_s=0)
        await asyncio.to_thread(discard, self._data, aside)

    async def start(self, sandbox: SandboxId) -> Started:
        files = self._data.of(sandbox)
        async with self._one_at_a_time(sandbox):
            record = await self._record(sandbox)
            seen = await observe(record, files)
            if seen.inspection.state is SandboxState.CREATING:
                raise SandboxInvalidState(f"{sandbox} was never created to the end: create it again")
            if seen.inspection.state not in UP:
                record = await self._start_anew(record, files)
            elif record.identity is None and seen.identity is not None:
                record = await self._confirm(files, record, seen.identity)
            elif record.ending:
                # A stop that was interrupted did not end it.
                record = await self._change(files, record, ending=False)
        assert record.instance is not None
        assert record.identity is not None
        return Started(instance=record.instance, pid=record.identity.pid, enforcement=record.enforcement)

    async def _start_anew(self, record: Record, files: SandboxFiles) -> Record:
        await self._end(record, files, grace_s=0)
        if await asyncio.to_thread(is_life_lock_held, files.log):
            raise SandboxStartFailed(f"an incarnation of {record.sandbox} that is not on record is still alive")
        instance = secrets.token_hex(16)
        place = await asyncio.to_thread(find_place, f"cloche-{instance}")
        record = await self._change(files, record, instance=instance, cgroup=place, identity=None, paused=False)
        try:
            await asyncio.to_thread(launch_sandbox, record, files)
            record = await self._confirm(files, record, await wait_for_init(instance, files))
        except (SandboxStartFailed, OSError, SubprocessError) as error:
            await self._give_up(record, files)
            if isinstance(error, SandboxStartFailed):
                raise
            raise SandboxStartFailed(f"cannot start {record.sandbox}: {error}") from error
        return record

    async def _give_up(self, record: Record, files: SandboxFiles) -> None:
        # When even this fails, the instance stays on record and the next start tries again.
        with suppress(SandboxStopFailed):
            await self._end(record, files, grace_s=0)

    async def _confirm(self, files: SandboxFiles, record: Record, identity: Identity) -> Record:
        """Init is up: hold it to the last limit, and remember it."""
        held = await asyncio.to_thread(hold_by_group, record.cgroup, record.resources)
        processes = process_limit(record.resources, held)
        if processes is not None:
            resource.prlimit(identity.pid, resource.RLIMIT_NPROC, (processes, processes))
        now_held = enforcement(record.resources, held, record.network)
        record = await self._change(files, record, identity=identity, enforcement=now_held)
        await self._watch(record, identity)
        return record

    async def stop(self, sandbox: SandboxId, grace_s: float = 10.0) -> None:
        async with self._one_at_a_time(sandbox):
            await self._end(await self._record(sandbox), self._data.of(sandbox), grace_s)

    async def _end(self, record: Record, files: SandboxFiles, grace_s: float) -> Record:
        if record.instance is None:
            return record
        self._ended_here.add(record.instance)
        record = await self._change(files, record, ending=True)
        try:
            await end_sandbox(record, files, grace_s)
        except SandboxStopFailed:
            # What is still alive may die later, and that is a death.
            self._ended_here.discard(record.instance or "")
            await self._change(files, record, ending=False)
            raise
        nothing = {"instance": None, "identity": None, "cgroup": None}
        return await self._change(files, record, **nothing, paused=False, ending=False)

    async def pause(self, sandbox: SandboxId) -> None:
        files = self._data.of(sandbox)
        async with self._one_at_a_time(sandbox):
            record, seen = await self._observe(sandbox)
            if seen.inspection.state is SandboxState.PAUSED:
                return
            if seen.inspection.state is not SandboxState.RUNNING:
                raise SandboxInvalidState(f"{sandbox} is {seen.inspection.state}, not running")
            record = await self._change(files, record, paused=True)
            if group := await asyncio.to_thread(freezer, record.cgroup):
                await freeze(group)
            else:
                await self._ask_init(sandbox, "freeze")

    async def resume(self, sandbox: SandboxId) -> None:
        files = self._data.of(sandbox)
        async with self._one_at_a_time(sandbox):
            record, seen = await self._observe(sandbox)
            if seen.inspection.state not in UP:
                raise SandboxInvalidState(f"{sandbox} is {seen.inspection.state}, not paused")
            if group := await asyncio.to_thread(freezer, record.cgroup):
                await asyncio.to_thread(group.thaw)
            elif record.paused:
                await self._ask_init(sandbox, "thaw")
            await self._change(files, record, paused=False)

    async def _ask_init(self, sandbox: SandboxId, op: str) -> None:
        try:
            async with await InitConnection.open(self._data.of(sandbox).control, HELLO_TIMEOUT_S) as init:
                await init.ask(op=op)
        except Unavailable as error:
            raise SandboxInvalidState(f"{sandbox} cannot {op}: {error.message}") from error

    async def remove(self, sandbox: SandboxId) -> None:
        files = self._data.of(sandbox)
        async with self._one_at_a_time(sandbox):
            try:
                record = await asyncio.to_thread(load_record, files.record)
            except SandboxInvalidState as error:
                if await asyncio.to_thread(is_life_lock_held, files.log):
                    raise SandboxRemovalFailed(f"{error.message}, and something of it runs") from error
                record = None
            if record is not None:
                await self._end(record, files, grace_s=0)
            await asyncio.to_thread(discard, self._data, files)

    async def inspect(self, sandbox: SandboxId) -> Inspection | None:
        files = self._data.of(sandbox)
        record = await asyncio.to_thread(load_record, files.record)
        if record is None:
            return None
        seen = await observe(record, files)
        if seen.identity is not None:
            await self._watch(record, seen.identity)
        return seen.inspection

    async def created(self, sandbox: SandboxId) -> Created:
        return as_created(await self._record(sandbox), self._data.of(sandbox))

    async def sandboxes(self) -> tuple[SandboxId, ...]:
        return await asyncio.to_thread(self._data.ids)

    async def stats(self, sandbox: SandboxId) -> Stats:
        record, seen = await self._observe(sandbox)
        if seen.identity is None:
            raise SandboxInvalidState(f"{sandbox} is {seen.inspection.state}, not running")
        return await asyncio.to_thread(measure_sandbox, record, self._data.of(sandbox), seen.identity)

    async def use(self, sandbox: SandboxId, pid: int) -> Use:
        return await asyncio.to_thread(lambda: measure_use(self._load(sandbox), pid))

    async def oom_kills(self, sandbox: SandboxId) -> int | None:
        place = (await self._record(sandbox)).cgroup
        return None if place is None else (await asyncio.to_thread(open_cgroup(place).usage)).oom_kills

    async def disk_usage(self, sandbox: SandboxId) -> DiskUsage:
        def measure() -> DiskUsage:
            self._load(sandbox)
            return measure_tree(self._data.of(sandbox).workspace)

        return await asyncio.to_thread(measure)

    async def environment(self, sandbox: SandboxId) -> dict[str, str]:
        return (await self._record(sandbox)).env

    async def target(self, sandbox: SandboxId) -> LocalTarget:
        record = await self._record(sandbox)
        if record.instance is None:
            raise SandboxInvalidState(f"{sandbox} is not started")
        return LocalTarget(socket=str(self._data.of(sandbox).socket), instance=record.instance)

    async def events(self) -> AsyncIterator[ProviderEvent]:
        queue = self._deaths.listen()
        try:
            for sandbox in await self.sandboxes():
                with suppress(SandboxInvalidState):
                    await self.inspect(sandbox)
            while True:
                death = await queue.get()
                yield await asyncio.to_thread(self._explain, death)
        finally:
            self._deaths.unlisten(queue)

    def _explain(self, death: Death) -> ProviderEvent:
        files = self._data.of(death.sandbox)
        record = load_record(files.record)
        mine = record if record is not None and record.instance == death.instance else None
        # Nothing but an order takes an instance off the record.
        asked = mine is None or mine.ending or death.instance in self._ended_here
        end = explain_end(None if mine is None else mine.cgroup, files)
        kind: Literal["stopped", "died"] = "stopped" if asked else "died"
        return ProviderEvent(sandbox=death.sandbox, instance=death.instance, kind=kind, end=end)

    async def snapshot(self, sandbox: SandboxId) -> Snapshot:
        raise Invalid(f"snapshot of {sandbox}: local sandboxes have no snapshots yet")

    def _one_at_a_time(self, sandbox: SandboxId) -> asyncio.Lock:
        return self._locks.setdefault(sandbox, asyncio.Lock())

    async def _record(self, sandbox: SandboxId) -> Record:
        return await asyncio.to_thread(self._load, sandbox)

    def _load(self, sandbox: SandboxId) -> Record:
        record = load_record(self._data.of(sandbox).record)
        if record is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox} on this node")
        return record

    async def _observe(self, sandbox: SandboxId) -> tuple[Record, Observation]:
        record = await self._record(sandbox)
        return record, await observe(record, self._data.of(sandbox))

    async def _change(self, files: SandboxFiles, record: Record, **changes: Any) -> Record:
        changed = msgspec.structs.replace(record, **changes)
        await asyncio.to_thread(store_record, files.record, changed)
        return changed

    async def _watch(self, record: Record, identity: Identity) -> None:
        assert record.instance is not None
        if record.blank:
            return
        await self._deaths.watch(Death(record.sandbox, record.instance), identity)

    async def aclose(self) -> None:
        await self._deaths.aclose()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(empty_trash, self._data)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
