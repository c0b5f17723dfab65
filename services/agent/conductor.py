"""One run on this node, from wherever it stands to its end."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from contracts.agents import Agents
from contracts.errors import AgentFailed, ClocheError, Failure, SandboxError
from contracts.events import agent as facts
from contracts.message import Fact
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal
from services.agent import course
from services.agent.allowance import Allowance
from services.agent.budget import BudgetSpent, overrun, time_left
from services.agent.commands import is_the_sandboxs
from services.agent.leavings import Leavings
from services.agent.names import command_of, is_call
from services.agent.pen import Pen
from services.agent.process import ProcessLost
from services.agent.record import Record, told
from services.agent.runtimes.runtime import Ending, Runtime
from services.agent.stage import Stage
from services.agent.standing import Moved, Standing
from services.agent.story import story_of

logger = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_S = 5.0
ATTEMPTS = 5
"""In a row, of which none came to say anything."""
SOON_S = 2.0
"""By then the log knows why a process was killed."""


class Stopped(Exception):
    pass


class Conductor:
    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        settings: Agents,
        allowance: Allowance,
        standing: Standing,
        runtime: Runtime,
        record: Record,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._settings = settings
        self._allowance = allowance
        self._standing = standing
        self._runtime = runtime
        self.record = record
        self.pen = Pen(journal, record)

    async def conduct(self) -> None:
        """To the run's end, or until the sandbox is another node's. Never raises but when cancelled."""
        course.enter(self.record)
        try:
            await self._conduct()
        finally:
            await asyncio.gather(*self.record.writing.values(), return_exceptions=True)

    async def _conduct(self) -> None:
        try:
            await self._attempts()
        except Moved:
            return
        except Stopped as stopped:
            await self._end(facts.AgentCompleted(run=self.record.run, reason=f"stopped: {stopped}"), str(stopped))
        except ClocheError as error:
            failed = facts.AgentError(run=self.record.run, failure=error.failure(), detail=_last_words(error))
            await self._end(failed, error.message)
        except Exception as error:
            logger.exception("run %s: a bug in the runtime", self.record.run)
            failure = Failure(code="INTERNAL", message=f"the runtime failed: {type(error).__name__}")
            await self._end(facts.AgentError(run=self.record.run, failure=failure), failure.message)

    async def _attempts(self) -> None:
        attempt, story, lost, vain = max(self.record.attempt, 1), self.record.story, None, 0
        while True:
            state = await self._unless_stopped(self._standing.running(lost))
            before = self.record.sequence
            if lost is not None:
                story = story_of(state, self.record)
            stage = Stage(
                bus=self._bus,
                journal=self._journal,
                settings=self._settings,
                state=state,
                record=self.record,
                allowance=self._allowance,
                attempt=attempt,
                story=story,
                falls=partial(self._standing.falls, state, SOON_S),
            )
            try:
                await self._attempt(stage)
            except ProcessLost as error:
                # Its own `attached` is no progress.
                vain = vain + 1 if self.record.sequence <= before + 1 else 0
                if vain >= ATTEMPTS:
                    raise AgentFailed(f"given up after {ATTEMPTS} attempts: {error.message}", reason="lost") from error
                attempt, lost = attempt + 1, state.instance
                # What this life has told is from now on like what an earlier one has.
                self.record.told = await told(self._bus, self.record)
            else:
                return

    async def _attempt(self, stage: Stage) -> None:
        try:
            ending = await self._perform(stage)
            end = facts.AgentCompleted(run=self.record.run, reason=ending.reason, result=ending.result)
        except Stopped as stopped:
            end = facts.AgentCompleted(run=self.record.run, reason=f"stopped: {stopped}")
        except BudgetSpent as spent:
            end = facts.AgentCompleted(run=self.record.run, reason=f"budget: {spent}")
        except AgentFailed as error:
            await self._excuse(stage, error)
            raise
        except SandboxError as error:
            if is_the_sandboxs(error.failure()) and await self._standing.falls(stage.state, SOON_S):
                raise ProcessLost(error.message) from error
            raise
        await self._end(end, end.reason)

    async def _excuse(self, stage: Stage, error: AgentFailed) -> None:
        """A program that was killed with its sandbox is not at fault. Raises `ProcessLost`, or the sandbox's error."""
        if error.details.get("reason") != "ended":
            return
        results = [process.result for process in stage.processes if process.result is not None]
        if not any(result.may_be_killed for result in results):
            return
        if await self._standing.falls(stage.state, SOON_S):
            raise ProcessLost(error.message) from error

    async def _end(self, fact: Fact, reason: str) -> None:
        """Nothing of the run goes on without it."""
        async with self.record.intake:
            self.record.closed = True
        leavings = Leavings(
            self._bus,
            node=self._journal.node,
            sandbox=self.record.sandbox,
            run=self.record.run,
            start=self.record.first_sequence,
        )
        with contextlib.suppress(ClocheError):
            await leavings.clear(reason, self._ordered())
        await self.pen.write("end", fact)

    def _ordered(self) -> set[str]:
        """What may be on its way and not begun: then the log does not know it yet."""
        record = self.record
        calls = {command_of(record.run, call) for call in record.open_calls if is_call(call)}
        return {*record.ordered, *calls, *([record.process] if record.process else [])}

    async def _perform(self, stage: Stage) -> Ending:
        if words := overrun(self.record.started, self.record.spent):
            raise BudgetSpent(words)
        others = (self._mind(stage), stage.partials.run(), self._standing.goes(), self._allowed())
        return await _first(_task(self._runtime.drive(stage)), *(_task(each) for each in others))

    async def _allowed(self) -> None:
        """Raises `BudgetSpent` once its project, or its sandbox's owner, has nothing left to spend."""
        await self._allowance.lasts(self.record.sandbox)

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Raises `Stopped`."""
        return await _first(_task(waiting), _task(self._stopped()))

    async def _stopped(self) -> None:
        while self.record.stop_asked is None:
            await self.record.changed()
        raise Stopped(self.record.stop_asked.reason or "asked")

    async def _mind(self, stage: Stage) -> None:
        """Raises `Stopped`, `BudgetSpent` for time, `AgentFailed` for a program that hangs."""
        record = self.record
        while True:
            if record.stop_asked is not None:
                raise Stopped(record.stop_asked.reason or "asked")
            while record.paused != record.pause_wanted:
                await self._pause_or_resume(stage)
            left = self._time_left()
            if left is not None and left <= 0:
                raise BudgetSpent(f"{record.started.timeout_ms} ms")
            self._check_silence(stage)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, self._settings.silence_s, LOOK_S if left is None else left)):
                    await record.changed()

    def _time_left(self) -> float | None:
        record = self.record
        now = clock.steady()
        return time_left(record.started, now - record.began, record.paused_s + record.pause_s(now))

    def _check_silence(self, stage: Stage) -> None:
        record = self.record
        busy = record.paused or record.waiting or record.pending or record.open_calls or not stage.processes
        quiet = min((each.quiet_s() for each in stage.processes), default=0.0)
        if not busy and quiet > self._settings.silence_s:
            raise AgentFailed(f"the agent has said nothing for {quiet:.0f} s, and no tool call is open", reason="hang")

    async def _pause_or_resume(self, stage: Stage) -> None:
        record = self.record
        # What is wanted may change while this is done: then it is done again, the other way.
        order, reason = record.pause_order, record.pause_reason
        if record.paused and not record.pause_wanted:
            await self._signal(stage, signal.SIGCONT)
            for process in stage.processes:
                process.excuse()
            await self.pen.write(f"resumed/{order}", facts.AgentResumed(run=record.run, order=order))
        elif record.pause_wanted and not record.paused:
            await self._signal(stage, signal.SIGSTOP)
            await self.pen.write(f"paused/{order}", facts.AgentPaused(run=record.run, reason=reason, order=order))

    async def _signal(self, stage: Stage, number: int) -> None:
        with contextlib.suppress(ClocheError):
            for process in stage.processes:
                if process.result is None:
                    await process.signal(number)
            await stage.commands.signal(number)


def _task(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    return asyncio.create_task(work)


async def _first(wanted: "asyncio.Task[T]", *others: "asyncio.Task[None]") -> T:
    """What is wanted, unless one of the others raises before. None of them is left running."""
    tasks: list[asyncio.Task[Any]] = [wanted, *others]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            if task.done():
                task.result()
        return wanted.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _last_words(error: ClocheError) -> str:
    return error.details.get("last_words", "")
