"""Tool calls of a script: each is told, needs its leave, is done once, and has one result."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from contracts.agents import Verdict, verdict_for
from contracts.errors import ClocheError
from contracts.events import agent as facts
from contracts.message import JsonObject
from services.agent.names import approval_name, call_name
from services.agent.process import ProcessLost
from services.agent.record import Answer
from services.agent.runtimes.script import recall
from services.agent.runtimes.script.halting import Halt, Halted
from services.agent.stage import Stage

DONE, UNEXPECTED, SILENCE, DENIED, FAILED = "done", "unexpected", "silence", "denied", "failed"
WAYS = (DONE, UNEXPECTED, SILENCE, DENIED, FAILED)
"""In which a call can end that make a difference to what follows. The key of the result says which it was, so that a
later life knows without the result itself."""


class Outcome(NamedTuple):
    ok: bool
    output: str
    way: str = DONE
    duration_ms: float | None = None
    truncated: bool = False


class Call(NamedTuple):
    key: str
    id: str
    tool: str = ""
    input: JsonObject = {}
    parent: str | None = None
    heard: bool = False
    """Whether something was said to the agent before it."""
    asks: bool = False
    """For leave, whatever the rules say, unless they deny it."""
    free: bool = False
    """No rule is asked: it does nothing."""
    lasts: bool = False
    """It is made of calls: after the loss of one it goes on with the rest; an interrupt ends the one that is open."""

    def of(self, tool: str, given: JsonObject) -> "Call":
        return self._replace(tool=tool, input=given)

    @property
    def used(self) -> str:
        """The key under which it is told, which also tells a later life whether something was heard before it."""
        return used(self.key, heard=self.heard)


Work = Callable[[Call], Awaitable[Outcome]]


def used(key: str, *, heard: bool) -> str:
    return f"{key}/used-heard" if heard else f"{key}/used"


def call_id(run: str, key: str) -> str:
    return call_name(run, key)


class Calls:
    def __init__(self, stage: Stage, halt: Halt) -> None:
        self._stage = stage
        self._halt = halt
        self.passing = False
        """Only over what is told."""
        self.count = 0

    async def ready(self) -> None:
        """Before anything new. Waits while the run is paused; raises `Halted`."""
        if self._halt.halted or self.passing:
            raise Halted
        await self._halt.unless(self._stage.steering.gate())

    def way(self, key: str) -> str | None:
        """How a call ended in an earlier life."""
        return next((way for way in WAYS if self._stage.is_told(f"{key}/{way}")), None)

    async def make(self, call: Call, work: Work) -> str:
        """The way in which it ended, now or earlier.

        Raises `Halted` before it is begun. Raises `ProcessLost` where the sandbox was lost under it, when that is told.
        """
        if not self._stage.is_told(call.used):
            await self.ready()
            told = facts.AgentToolUse(
                run=self._stage.run, call=call.id, tool=call.tool, input=call.input, parent=call.parent
            )
            await self._stage.tell(call.used, told)
        self.count += 1
        if (way := self.way(call.key)) is not None:
            return way
        return await self._carry_out(call, work)

    async def _carry_out(self, call: Call, work: Work) -> str:
        lost: ProcessLost | None = None
        try:
            outcome = await self._with_leave(call, work)
        except Halted:
            outcome = Outcome(False, "interrupted", FAILED)
        except ProcessLost as error:
            if call.lasts:
                raise
            lost, outcome = error, Outcome(False, error.message, FAILED)
        except ClocheError as error:
            outcome = Outcome(False, f"{error.code}: {error.message}", FAILED)
        result = facts.AgentToolResult(
            run=self._stage.run,
            call=call.id,
            ok=outcome.ok,
            output=outcome.output,
            truncated=outcome.truncated,
            duration_ms=outcome.duration_ms,
        )
        await self._stage.tell(f"{call.key}/{outcome.way}", result)
        if lost is not None:
            raise lost
        return outcome.way

    async def _with_leave(self, call: Call, work: Work) -> Outcome:
        if await self._begun(call):
            return await work(call)
        if not call.free:
            try:
                answer = await self._halt.unless(self._leave(call))
            except Halted:
                await self._stage.withdraw(call.key, "interrupted")
                raise
            if not answer.allowed:
                return Outcome(False, f"denied by {answer.by}: {answer.reason or 'no reason given'}", DENIED)
        if not call.lasts:
            await self.ready()
        return await work(call)

    async def _begun(self, call: Call) -> bool:
        """By an earlier life. Then it had its leave; and it is followed, for only so can an interrupt end it."""
        told = self._stage.is_told(call.used) and not call.lasts
        return told and await recall.begun(self._stage, call.key, call.id)

    async def _leave(self, call: Call) -> Answer:
        stage, asked = self._stage, f"asked/{call.key}"
        denied = verdict_for(stage.order.approvals, call.tool, call.input).verdict is Verdict.DENY
        if call.asks and not denied and not stage.is_told(asked):
            request = facts.AgentApprovalRequested(
                run=stage.run,
                approval=approval_name(stage.run, call.key),
                tool=call.tool,
                input=call.input,
                expires_ms=stage.order.approval_timeout_ms,
                call=call.id,
            )
            await stage.tell(asked, request)
        return await stage.approve(call.key, call.tool, call.input, call=call.id)
