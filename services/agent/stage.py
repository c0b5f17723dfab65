"""What a runtime is given of its run: all that it does under a key is done once, however often it is begun again."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping, Sequence

from contracts.agents import Agents
from contracts.errors import AgentFailed, Failure
from contracts.events import agent as facts
from contracts.message import Fact, JsonObject
from contracts.state import SandboxState
from infra.bus.connection import Bus
from infra.client.files import Files
from infra.journal import Journal
from services.agent.allowance import Allowance
from services.agent.approving import Approving
from services.agent.budget import BudgetSpent, overrun
from services.agent.commands import Commands, Falls
from services.agent.lines import Line
from services.agent.names import process_name
from services.agent.partials import Partials
from services.agent.pen import Pen
from services.agent.process import Process
from services.agent.record import Answer, Record
from services.agent.steering import Steering
from services.agent.transcripts import Transcripts

GARBAGE_LINES = 20
GARBAGE_SHOWN = 200


class Stage:
    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        settings: Agents,
        state: SandboxState,
        record: Record,
        allowance: Allowance,
        attempt: int,
        story: str,
        falls: Falls,
    ) -> None:
        self.bus = bus
        self._record = record
        self._allowance = allowance
        self._pen = Pen(journal, record)
        self._approving = Approving(self._pen, record)
        self._garbage = 0
        self.settings = settings
        self.state = state
        """Of the sandbox, as this attempt began."""
        self.order = record.started
        """Prompt, model, options, bounds, the run to go on from."""
        self.attempt = attempt
        self.story = story
        """Why there is another attempt, in words for the agent; empty for the first."""
        self.steering = Steering(self._pen, record)
        self.partials = Partials(self._pen, record.run, record.partial_told)
        self.transcripts = Transcripts(bus, self._pen, record, state.spec)
        self.commands = Commands(bus, state, record, falls)
        self.processes: list[Process] = []

    @property
    def run(self) -> str:
        return self._record.run

    @property
    def first_sequence(self) -> int:
        """Of the run: nothing of it precedes this."""
        return self._record.first_sequence

    @property
    def workspace(self) -> str:
        return self.state.workspace

    def files(self, call: str) -> Files:
        """File operations, `tool.*` on the record, asked for by this token."""
        return Files(self.bus, node=self.state.node, sandbox=self.state.sandbox, asked_by=call)

    def is_told(self, key: str) -> bool:
        """By an earlier life of this service."""
        return self._pen.has(key)

    async def tell(self, key: str, fact: Fact) -> None:
        """Put a fact of the run into the log, once. Keys of what a process says begin with the process's id.

        What is too long for an event is cut, and says so.
        """
        await self._pen.write(key, fact)

    async def spend(self, key: str, spent: facts.AgentMetrics) -> None:
        """Tell what was spent since the last time. Raises `BudgetSpent`, which ends the run: let it pass."""
        await self._pen.write(key, spent)
        if words := overrun(self._record.started, self._record.spent):
            raise BudgetSpent(words)
        await self._allowance.after_spending(self._record.sandbox)

    async def approve(
        self, key: str, tool: str, arguments: JsonObject, *, call: str | None = None, reason: str = ""
    ) -> Answer:
        """See `Approving.approve`."""
        return await self._approving.approve(key, tool, arguments, call=call, reason=reason)

    async def withdraw(self, key: str, reason: str) -> None:
        """What was asked under this key is no longer asked; whoever waits for the answer gets a no."""
        await self._approving.withdraw(key, reason)

    @property
    def has_process(self) -> bool:
        """Whether this attempt's program was begun already, by an earlier life of this service."""
        return self._pen.has(f"attached/{self._process_id}")

    @property
    def _process_id(self) -> str:
        return process_name(self.run, self.attempt)

    @contextlib.asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """A time-out for the agent that stands still while the run is paused. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds) as limit:
            stretching = asyncio.create_task(self._stretch(limit, seconds))
            try:
                yield
            finally:
                stretching.cancel()
                await asyncio.gather(stretching, return_exceptions=True)

    async def _stretch(self, limit: asyncio.Timeout, seconds: float) -> None:
        loop, paused = asyncio.get_running_loop(), False
        while True:
            if paused != (paused := self._record.paused or self._record.pause_wanted):
                limit.reschedule(None if paused else loop.time() + seconds)
            await self._record.changed()

    @contextlib.asynccontextmanager
    async def process(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        """This attempt's program in the sandbox, started or found again. It outlives this service.

        Raises the reason where it cannot be started, `ProcessLost`.
        """
        exec_id = self._process_id
        told = facts.AgentAttached(run=self.run, process=exec_id, attempt=self.attempt, reason=self.story)
        await self._pen.write(f"attached/{exec_id}", told)
        self._record.ordered.add(exec_id)
        process = Process(
            self.bus,
            node=self.state.node,
            sandbox=self.state.sandbox,
            exec_id=exec_id,
            start=self._record.first_sequence,
            most_bytes=self.settings.max_output_bytes,
        )
        async with process.attached(argv, env=env or {}, cwd=cwd):
            self.processes.append(process)
            if self._record.paused:
                await process.signal(signal.SIGSTOP)
            yield process

    async def garbage(self, process: Process, line: Line, why: str) -> None:
        """A line is not of the protocol: told once, and put up with for a while.

        Raises `AgentFailed` when there are too many.
        """
        self._garbage += 1
        shown = line.data[:GARBAGE_SHOWN].decode("utf-8", "replace")
        if self._garbage > GARBAGE_LINES:
            raise AgentFailed(f"the agent does not speak its protocol: {why}: {shown!r}", reason="protocol")
        if self._garbage == 1:
            failure = Failure(code=AgentFailed.code, message=f"not of the protocol: {why}: {shown!r}")
            await self._pen.write(f"garbage/{process.id}", facts.AgentError(run=self.run, failure=failure, final=False))

    def fell_silent(self, process: Process, what: str) -> AgentFailed:
        """The error for a program that ended before it should have."""
        result = process.result
        how = "it closed its output" if result is None else _how(result.exit_code, result.signal, result.cause)
        return AgentFailed(f"the agent's program ended {what}: {how}", reason="ended", last_words=process.last_words)


def _how(code: int | None, number: int | None, cause: str) -> str:
    if number is not None:
        return f"killed by signal {number}"
    return cause if code is None else f"exit code {code}"
