"""The runs that are open on this node, each conducted by itself."""

import asyncio
from collections.abc import Mapping

from contracts import subjects
from contracts.agents import Agents
from contracts.errors import ClocheError, RuntimeMissing, SandboxInvalidState
from contracts.events import agent as facts
from contracts.state import SandboxState, Status
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.observing import catalogue
from infra.observing.about import About, speaking_of
from services.agent import record as records
from services.agent.allowance import Allowance
from services.agent.conductor import Conductor
from services.agent.pen import Pen
from services.agent.record import Record
from services.agent.runtimes.runtime import Runtime
from services.agent.standing import Standing


class Runs:
    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        lifecycles: Lifecycles,
        settings: Agents,
        allowance: Allowance,
        runtimes: Mapping[str, Runtime],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._lifecycles = lifecycles
        self._settings = settings
        self._allowance = allowance
        self._runtimes = runtimes
        self._tasks = tasks
        self._open: dict[str, Conductor] = {}
        self._finding = asyncio.Lock()
        self._looked: dict[str, str] = {}
        """Sandboxes whose last run was looked up, and the node that they were of."""

    def show(self) -> None:
        """What is open, to whoever looks."""

        def pending() -> list[float]:
            asked = [each.asked_at for open_ in self._open.values() for each in open_.record.pending.values()]
            return [(clock.now() - moment).total_seconds() for moment in asked]

        self._tasks.create_task(catalogue.runs_open.show(lambda: len(self._open)))
        self._tasks.create_task(catalogue.approvals_pending.show(lambda: len(pending())))
        self._tasks.create_task(catalogue.approvals_oldest.show(lambda: max(pending(), default=0.0)))

    def runtime(self, name: str) -> Runtime:
        """Raises `RuntimeMissing`."""
        found = self._runtimes.get(name)
        if found is None:
            raise RuntimeMissing(f"there is no runtime {name[:80]!r}: one of {', '.join(sorted(self._runtimes))}")
        return found

    async def open(self, sandbox: str) -> Conductor | None:
        """The run that is open in a sandbox of this node."""
        async with self._finding:
            if sandbox not in self._open and self._looked.get(sandbox) != self._journal.node:
                await self._find(sandbox)
        found = self._open.get(sandbox)
        return None if found is None or found.record.ended else found

    def begin(self, record: Record) -> None:
        standing = Standing(self._lifecycles, record.sandbox, self._journal.node)
        self._lifecycles.on_change(standing.notice)
        conductor = Conductor(
            bus=self._bus,
            journal=self._journal,
            settings=self._settings,
            allowance=self._allowance,
            standing=standing,
            runtime=self.runtime(record.started.runtime),
            record=record,
        )
        self._looked[record.sandbox] = self._journal.node
        self._open[record.sandbox] = conductor
        run = About(record.sandbox, record.run)
        self._tasks.create_task(speaking_of(run, self._conduct, record.sandbox, conductor, standing))

    def notice(self, state: SandboxState) -> None:
        """A sandbox that has come to this node may have a run that goes on here."""
        if state.status == Status.REMOVED:
            self._looked.pop(state.sandbox, None)
        elif state.node != self._journal.node:
            self._looked[state.sandbox] = state.node
        elif self._looked.get(state.sandbox) not in (None, state.node):
            self._tasks.create_task(self.open(state.sandbox))

    async def _conduct(self, sandbox: str, conductor: Conductor, standing: Standing) -> None:
        try:
            await conductor.conduct()
        finally:
            self._lifecycles.off_change(standing.notice)
            if self._open.get(sandbox) is conductor:
                del self._open[sandbox]

    async def bury(self, sandbox: str) -> None:
        """Its sandbox was removed while nobody was here: the run that was open in it ends, and says why."""
        record = await self._last(sandbox)
        if record is not None:
            await self._fail(record, SandboxInvalidState(f"sandbox {sandbox!r} was removed"))

    async def _find(self, sandbox: str) -> None:
        self._looked[sandbox] = self._journal.node
        record = await self._last(sandbox)
        if record is None or sandbox in self._open:
            return
        try:
            self.begin(record)
        except RuntimeMissing as error:
            await self._fail(record, error)

    async def _last(self, sandbox: str) -> Record | None:
        """The run that is open there: only the newest can be."""
        begun = f"{subjects.event(sandbox, 'agent.started')}.*"
        newest = await reader.patiently(self._bus, lambda bus: reader.last(bus, begun))
        if newest is None:
            return None
        record = await records.load(self._bus, sandbox, subjects.parse_event(newest.subject).scope or "")
        return None if record is None or record.ended else record

    async def _fail(self, record: Record, error: ClocheError) -> None:
        failed = facts.AgentError(run=record.run, failure=error.failure())
        await Pen(self._journal, record).write("end", failed)
