"""Takes orders for agents: begins runs, and puts what is said to them on record."""

import asyncio

from contracts import codec, subjects
from contracts.agents import Agents
from contracts.commands import agent as orders
from contracts.errors import Invalid, SandboxInvalidState, SandboxResourceLimitExceeded
from contracts.events import agent as facts
from contracts.message import Fact, Order
from infra import asking
from infra.bus.connection import Bus
from infra.journal import Journal
from services.agent import record as records
from services.agent.allowance import Allowance
from services.agent.decide import may_start, started
from services.agent.record import Record
from services.agent.runs import Runs
from services.agent.transcripts import find_run

CLIENT = "client"
MOST_QUEUED = 1000


class Orders:
    def __init__(self, *, bus: Bus, journal: Journal, settings: Agents, allowance: Allowance, runs: Runs) -> None:
        self._bus = bus
        self._journal = journal
        self._settings = settings
        self._allowance = allowance
        self._runs = runs

    async def handle(self, subject: str, raw: bytes) -> None:
        """Raises a `ClocheError`: retryable = ask again later, otherwise it is a dead letter."""
        head, order = codec.decode_command(subject, raw)
        sandbox = subjects.parse_command(subject).sandbox
        if isinstance(order, orders.StartAgent):
            await self._start(sandbox, head.id, order, head.source)
        else:
            await self._steer(sandbox, head.id, order, "user" if head.source == CLIENT else head.source)

    async def _start(self, sandbox: str, run: str, order: orders.StartAgent, by: str) -> None:
        state = await self._journal.lifecycle(sandbox)
        opened = await self._runs.open(sandbox)
        if await records.is_begun(self._bus, sandbox, run):
            return
        refusal = may_start(
            state, sandbox=sandbox, node=self._journal.node, open_run=None if opened is None else opened.record.run
        )
        if refusal is not None:
            raise refusal
        assert state is not None
        await self._allowance.check(sandbox)
        # Options may be long, and packages large to import: everybody else need not wait for that.
        await asyncio.to_thread(self._runs.runtime(order.runtime).check, order)
        if order.resume is not None and await find_run(self._bus, sandbox, state.spec, order.resume) is None:
            raise Invalid(f"sandbox {sandbox!r} has no earlier run {order.resume!r} to go on from")
        begun = started(order, run, self._settings, by)
        written = self._journal.write(sandbox, begun, id=f"{sandbox}.{run}.started", command=run)
        sequence = await self._journal.append(written)
        record = Record(sandbox, begun, sequence, codec.decode_head(written.payload).time)
        record.trace = asking.traceparent.get() or ""
        self._runs.begin(record)

    async def _steer(self, sandbox: str, command: str, order: Order, by: str) -> None:
        conductor = await self._runs.open(sandbox)
        wanted = getattr(order, "run", None)
        if conductor is None or wanted not in (None, conductor.record.run):
            raise self._nobody(sandbox, wanted)
        record = conductor.record
        async with record.intake:
            if command in record.received:
                return
            is_over = record.closed or record.stop_asked is not None
            if record.ended or (is_over and not isinstance(order, orders.StopAgent)):
                raise self._nobody(sandbox, record.run)
            if len(record.queued) >= MOST_QUEUED and isinstance(order, orders.MessageAgent | orders.GuideAgent):
                raise SandboxResourceLimitExceeded(f"{MOST_QUEUED} messages wait for run {record.run!r} already")
            await conductor.pen.receive(command, _received(order, record, by))

    def _nobody(self, sandbox: str, run: str | None) -> SandboxInvalidState:
        which = "no run is open" if run is None else f"run {run!r} is not open"
        return SandboxInvalidState(f"{which} in sandbox {sandbox!r}: start one with `cloche agent start`")


def _received(order: Order, record: Record, by: str) -> Fact:
    """Raises `Invalid` for an answer that nobody waits for."""
    run = record.run
    match order:
        case orders.MessageAgent():
            return facts.UserMessage(run=run, text=order.text, by=by)
        case orders.GuideAgent():
            return facts.UserGuidance(run=run, text=order.text, by=by)
        case orders.InterruptAgent():
            return facts.UserInterrupt(run=run, reason=order.reason, by=by)
        case orders.ApproveAgent():
            _check_pending(record, order.approval)
            return facts.UserApprove(
                run=run, approval=order.approval, reason=order.reason, by=by, remember=order.remember
            )
        case orders.RejectAgent():
            _check_pending(record, order.approval)
            return facts.UserReject(run=run, approval=order.approval, reason=order.reason, by=by)
        case orders.PauseAgent():
            return facts.UserPause(run=run, reason=order.reason, by=by)
        case orders.ResumeAgent():
            return facts.UserResume(run=run, by=by)
        case orders.StopAgent():
            return facts.UserStop(run=run, reason=order.reason, by=by)
    raise Invalid(f"the agent service does not take {type(order).__name__}")


def _check_pending(record: Record, approval: str) -> None:
    if approval in record.answers or approval in record.decided:
        raise Invalid(f"approval {approval!r} was answered already")
    if approval not in record.pending:
        raise Invalid(f"no approval {approval!r} is pending in run {record.run!r}")
