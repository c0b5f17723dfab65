"""The gates of all sandboxes of a node, and the answers to what they ask."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

from contracts import codec, subjects
from contracts.commands.network import ApproveNetwork, RejectNetwork
from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound
from contracts.spec import UnknownHost
from contracts.state import SandboxState, Status
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.observing.about import About, speaking_of
from infra.resolving import Resolver
from infra.settings import Settings
from services.egress import leftovers
from services.egress.addresses import networks_of
from services.egress.gate import SandboxGate
from services.egress.ledger import Ledger
from services.egress.questions import Questions
from services.egress.reach import Reach
from services.egress.record import Pen, Record

logger = logging.getLogger(__name__)

FLUSH_S = 2.0


class Gates:
    """Enter it before any gate is asked for, run `run` in a task, and leave it when every proxy is closed.

    What was let through and could not be told by then, or when the process is killed, is told by the next.
    """

    def __init__(self, bus: Bus, journal: Journal, settings: Settings) -> None:
        self._bus = bus
        self._journal = journal
        self._egress = settings.egress
        self._ledgers: Path = settings.data / "egress"
        self._pen = Pen(bus, journal)
        self._resolver = Resolver(self._egress.addresses, timeout_s=self._egress.connect_timeout_s)
        self._reach = Reach(self._resolver, networks_of(self._egress.networks))
        self._gates: dict[str, SandboxGate] = {}
        self._records: dict[str, Record] = {}
        self._leaving: set[Record] = set()
        self._questions: dict[str, Questions] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._waiting: list[Coroutine[Any, Any, None]] = []
        self._left = leftovers.left_in(self._ledgers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def run(self) -> None:
        """For ever, until cancelled. First tells what an earlier life has left."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(leftovers.tell(self._pen, self._left))
            for each in self._waiting:
                tasks.create_task(each)
            self._waiting.clear()
            await asyncio.Event().wait()

    def gate(self, state: SandboxState) -> SandboxGate:
        """The one of this sandbox. Raises OSError where what passes could not be recorded."""
        gate = self._gates.get(state.sandbox)
        if gate is None:
            gate = self._make(state)
            self._gates[state.sandbox] = gate
        else:
            gate.change(state)
        return gate

    def changed(self, state: SandboxState) -> None:
        """To be told of every sandbox that moves, or whose network changes."""
        if state.node != self._journal.node or state.status == Status.REMOVED:
            self._forget(state.sandbox)
            return
        gate = self._gates.get(state.sandbox)
        if gate is not None:
            gate.change(state)
        elif state.spec.network.unknown == UnknownHost.ASK:
            self._questions_of(state.sandbox)

    async def handle(self, subject: str, raw: bytes) -> None:
        """An order `network.approve` or `network.reject`. Raises a `ClocheError`: it becomes a dead letter."""
        head, order = codec.decode_command(subject, raw)
        sandbox = subjects.parse_command(subject).sandbox
        if not isinstance(order, ApproveNetwork | RejectNetwork):
            raise Invalid(f"egress does not take {head.type}")
        state = await self._journal.lifecycle(sandbox)
        if state is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
        if state.node != self._journal.node:
            raise SandboxInvalidState(f"sandbox {sandbox!r} belongs to node {state.node!r}, not {self._journal.node!r}")
        if state.status == Status.REMOVED:
            raise SandboxInvalidState(f"sandbox {sandbox!r} is removed", status=state.status)
        await self._questions_of(sandbox).answer(head, order)
        gate = self._gates.get(sandbox)
        if gate is not None:
            gate.check_again()

    async def aclose(self) -> None:
        for each in self._waiting:
            each.close()
        for questions in self._questions.values():
            await questions.aclose()
        records = [*self._records.values(), *self._leaving]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await asyncio.gather(*(record.tell(everything=True) for record in records), return_exceptions=True)
        for record in records:
            record.close()
        await self._resolver.aclose()

    def _make(self, state: SandboxState) -> SandboxGate:
        record = Record(self._pen, Ledger.begin(self._ledgers, state.sandbox))
        self._records[state.sandbox] = record
        self._start(speaking_of(About(state.sandbox), self._keep, record))
        return SandboxGate(
            state,
            reach=self._reach,
            record=record,
            questions=self._questions_of(state.sandbox),
            record_paths=self._egress.record_paths,
        )

    async def _keep(self, record: Record) -> None:
        await record.run()
        self._leaving.discard(record)

    def _questions_of(self, sandbox: str) -> Questions:
        questions = self._questions.get(sandbox)
        if questions is None:
            questions = self._questions[sandbox] = Questions(self._bus, self._journal, sandbox)
            self._start(speaking_of(About(sandbox), questions.keep_time))
        return questions

    def _forget(self, sandbox: str) -> None:
        self._gates.pop(sandbox, None)
        questions = self._questions.pop(sandbox, None)
        if questions is not None:
            questions.finish()
        record = self._records.pop(sandbox, None)
        if record is not None:
            self._leaving.add(record)
            record.finish()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            self._waiting.append(work)
        else:
            self._tasks.create_task(work)
