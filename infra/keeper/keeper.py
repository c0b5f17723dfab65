"""Every command of a data directory: starts each at most once, and answers for its record."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from contracts.errors import Conflict, Invalid
from infra.keeper.execution import Execution
from infra.keeper.launch import Way
from infra.keeper.launch_local import LocalWay
from infra.keeper.layout import Layout
from infra.keeper.protocol import VERSION, ExecInfo, Greeting, Start
from infra.keeper.record import Record, claim, read_meta, read_target, remove
from infra.keeper.stock import Stock
from infra.target import DockerTarget, LocalTarget, Target

if TYPE_CHECKING:
    from infra.keeper.docker.ways import DockerWays

BACKLOG_BYTES = 1024**3
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

log = logging.getLogger("cloche.keeper")


class Keeper:
    """Commands run in tasks of its own: nothing depends on a client that stays connected."""

    def __init__(self, layout: Layout, instance: str, backlog_limit: int = BACKLOG_BYTES) -> None:
        self._layout = layout
        self.instance = instance
        self._backlog_limit = backlog_limit
        self._boot_id = BOOT_ID.read_text().strip()
        self._records: dict[str, Record] = {}
        self._executions: dict[str, Execution] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._beginning: dict[str, asyncio.Task[bool]] = {}
        self._containers: DockerWays | None = None
        self._clearing: set[asyncio.Task[None]] = set()

    @property
    def unfinished(self) -> int:
        """Commands whose record is not final."""
        return len(self._running)

    def greeting(self) -> Greeting:
        stock = Stock() if self._containers is None else self._containers.stock()
        return Greeting(
            instance=self.instance,
            version=VERSION,
            pid=os.getpid(),
            slots_ready=stock.ready,
            slot_hits=stock.hits,
            slot_misses=stock.misses,
        )

    def recover(self) -> None:
        """Closes what an earlier keeper left open. Its commands were killed when it died; those in containers are
        killed now, in the background, and closed after that.
        """
        for directory in sorted(self._layout.execs.iterdir()):
            try:
                meta = read_meta(directory)
                if meta is None:
                    remove(directory)
                    continue
                record = Record(directory, meta)
                if not record.final:
                    self._clear(record)
            except (OSError, ValueError) as error:
                log.warning("the record of %s cannot be read: %s", directory.name, error)
                continue
            self._records[directory.name] = record

    def _clear(self, record: Record) -> None:
        target = read_target(record.directory)
        if isinstance(target, DockerTarget):
            task = asyncio.create_task(self._kill_left(record, target))
            self._clearing.add(task)
            task.add_done_callback(self._clearing.discard)
        else:
            record.close_lost("keeper_died")

    async def _kill_left(self, record: Record, target: DockerTarget) -> None:
        """Its record is open until then: a keeper that dies meanwhile leaves it to the next one."""
        await self._ways().kill_left(target, record.exec_id)
        try:
            record.close_lost("keeper_died")
        except OSError as error:
            log.warning("the record of %s cannot be closed: %s", record.exec_id, error)

    async def prepare(self, target: Target, env: Mapping[str, str]) -> None:
        """Makes the next commands there start faster, where that is possible."""
        if isinstance(target, DockerTarget):
            await self._ways().prepare(target, env)

    async def start(self, request: Start) -> bool:
        """Starts the command. False when the exec was there before: nothing happens then.

        Returns when the command runs, or why it does not is on its record. Raises `Invalid` for a bad id and
        OSError where the disk refuses.
        """
        directory = self._layout.exec_dir(request.exec)
        if request.exec in self._beginning:
            await asyncio.shield(self._beginning[request.exec])
            return False
        # Not the caller's task: a client that leaves must not stop a start half way.
        beginning = asyncio.create_task(self._begin(request, directory))
        self._beginning[request.exec] = beginning
        beginning.add_done_callback(lambda _: self._beginning.pop(request.exec))
        return await asyncio.shield(beginning)

    async def _begin(self, request: Start, directory: Path) -> bool:
        # Opened while the claim is being written: it costs nothing then, and does nothing yet.
        way = asyncio.create_task(self._open_way(request))
        try:
            record = await asyncio.to_thread(claim, directory, self._meta(request))
        except BaseException:
            _discard(way)
            raise
        if record is None:
            _discard(way)
            return False
        execution = Execution(record, request, way, self._backlog_limit)
        self._records[request.exec] = record
        self._executions[request.exec] = execution
        self._running[request.exec] = asyncio.create_task(self._run(request.exec, execution))
        await execution.attempted.wait()
        return True

    async def _open_way(self, request: Start) -> Way:
        """Raises `LaunchFailed`."""
        match request.target:
            case LocalTarget() as target:
                return await LocalWay.open(target)
            case DockerTarget() as target:
                return await self._ways().open(request, target)

    def _ways(self) -> "DockerWays":
        if self._containers is None:
            # Loaded with the first container: where there are none, a keeper starts in a third of the time.
            from infra.keeper.docker.ways import DockerWays

            self._containers = DockerWays()
        return self._containers

    async def _run(self, exec_id: str, execution: Execution) -> None:
        try:
            await execution.run()
        except Exception:
            log.exception("the command %s is given up", exec_id)
            with contextlib.suppress(OSError):
                self._records[exec_id].close_lost("keeper_failed")
        finally:
            del self._executions[exec_id], self._running[exec_id]

    def _meta(self, request: Start) -> bytes:
        meta = msgspec.to_builtins(request)
        meta["env"] = sorted(request.env)
        meta["begun_ns"] = time.time_ns()
        meta["begun_boot_ns"] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return msgspec.json.encode({**meta, "keeper": self.instance, "boot_id": self._boot_id})

    def record(self, exec_id: str) -> Record:
        """Raises `Invalid` for an exec that is not known here."""
        if exec_id not in self._records:
            raise Invalid(f"unknown exec {exec_id[:80]!r}", reason="unknown_exec")
        return self._records[exec_id]

    def execution(self, exec_id: str) -> Execution | None:
        """None when its record is final. Raises `Invalid` for an exec that is not known here."""
        self.record(exec_id)
        return self._executions.get(exec_id)

    def list(self) -> list[ExecInfo]:
        """Without their contexts, which may be large: ask for each."""
        return [msgspec.structs.replace(record.info(), context=b"") for record in self._records.values()]

    def confirm(self, exec_id: str, position: int) -> None:
        self.record(exec_id).confirm(position)
        execution = self._executions.get(exec_id)
        if execution is not None:
            execution.resume()

    async def forget(self, exec_id: str) -> None:
        """Removes a final record, now or earlier. Raises `Conflict` while it is not final."""
        directory = self._layout.exec_dir(exec_id)
        record = self._records.get(exec_id)
        if record is None:
            return
        if not record.final or exec_id in self._running:
            raise Conflict(f"the record of {exec_id} is not final")
        del self._records[exec_id]
        record.close()
        await asyncio.to_thread(remove, directory)

    async def aclose(self) -> None:
        """Ends commands that still run: the sandbox kills them, and their records say why."""
        await asyncio.gather(*self._beginning.values(), return_exceptions=True)
        running = dict(self._running)
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        for exec_id in running:
            self._records[exec_id].close_lost("keeper_stopped")
        for task in self._clearing:
            task.cancel()
        await asyncio.gather(*self._clearing, return_exceptions=True)
        if self._containers is not None:
            await self._containers.aclose()
        for record in self._records.values():
            record.close()


def _discard(way: asyncio.Task[Way]) -> None:
    way.cancel()
    way.add_done_callback(_close_unused)


def _close_unused(way: asyncio.Task[Way]) -> None:
    if not way.cancelled() and way.exception() is None:
        way.result().close()
