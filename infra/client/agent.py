"""The agents in a sandbox, as a program outside starts, follows and steers them. All that is known is from the log."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from contracts import runs, subjects
from contracts.agents import ApprovalRule, TypedRule
from contracts.commands import agent as orders
from contracts.errors import Invalid, Unavailable
from contracts.events import agent as facts
from contracts.message import Fact, JsonObject, Order
from contracts.runs import RunState, from_guardian
from contracts.state import SandboxState
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.agent_run import AgentRun, read_event
from infra.client.orders import publish, raise_if_given_up
from infra.client.sandbox import load_state
from infra.ids import new_id


class Said(NamedTuple):
    """What was said to a run, as it is on record."""

    order: str
    """Its id: `agent.delivered` names it."""
    run: str
    sequence: int


class Asked(NamedTuple):
    """A tool call that waits for leave."""

    run: str
    sequence: int
    request: facts.AgentApprovalRequested
    at: datetime.datetime


class Waiting(NamedTuple):
    """Said and not delivered."""

    order: str
    kind: str
    """message, guidance, or interrupt where the guardian's reason is told to the agent."""
    text: str
    by: str
    sequence: int


def typed_rules(rules: Iterable[ApprovalRule]) -> tuple[TypedRule, ...]:
    """As an order brings them, each once."""
    typed = (
        TypedRule(tool=each.tool, pattern=each.pattern, verdict=each.verdict, reason=each.reason) for each in rules
    )
    return tuple(dict.fromkeys(typed))


class Agent:
    def __init__(self, bus: Bus, state: SandboxState) -> None:
        self._bus = bus
        self._sandbox = state.sandbox
        self._first = state.first_sequence

    async def start(
        self,
        runtime: str,
        prompt: str,
        *,
        id: str | None = None,  # noqa: A002
        resume: str | None = None,
        keep_open: bool = False,
        approvals: Sequence[ApprovalRule] = (),
        approval_timeout_ms: int | None = None,
        model: str | None = None,
        max_budget_usd: float | None = None,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        timeout_ms: int | None = None,
        options: JsonObject | None = None,
    ) -> AgentRun:
        """Begin a run; returns when `agent.started` is on the log. `id` is the run's; the same again is the same run.

        Raises the reason when it is refused: `SandboxInvalidState` while another run is open or the sandbox does not
        run, `RuntimeMissing`, `Invalid` for bad options or an unknown run in `resume`.
        """
        order = orders.StartAgent(
            runtime=runtime,
            prompt=prompt,
            resume=resume,
            keep_open=keep_open,
            approvals=typed_rules(approvals),
            approval_timeout_ms=approval_timeout_ms,
            model=model,
            max_budget_usd=max_budget_usd,
            max_turns=max_turns,
            max_tokens=max_tokens,
            timeout_ms=timeout_ms,
            options=options or {},
        )
        return await self.begin(order, id=id)

    async def begin(self, order: orders.StartAgent, *, id: str | None = None) -> AgentRun:  # noqa: A002
        """`start`, with the order as it is."""
        run = id or new_id("run")
        state = await load_state(self._bus, self._sandbox)
        begin = self._first if id else (await reader.bounds(self._bus)).last + 1
        await publish(self._bus, state.node, self._sandbox, order, id=run)
        async for entry in reader.read(self._bus, subjects.events_of(self._sandbox, scope=run), begin, follow=True):
            event = read_event(entry)
            if event is None:
                continue
            raise_if_given_up(event.head, run)
            if isinstance(event.fact, facts.AgentStarted):
                return AgentRun(self._bus, self._sandbox, event.fact, entry.seq)
        raise Unavailable("the log has ended")

    async def message(self, text: str, *, run: str | None = None, id: str | None = None) -> Said:  # noqa: A002
        """What an agent is told next: before its next tool call where the runtime can, or as its next turn.

        Like everything below returns when it is on the log as `user.*`, and raises the reason when it was refused:
        `SandboxInvalidState` where no run is open (or not `run`). The same `id` again is the same message.
        """
        return await self.say(orders.MessageAgent(text=text, run=run), id=id)

    async def guide(self, text: str, *, run: str | None = None, id: str | None = None) -> Said:  # noqa: A002
        return await self.say(orders.GuideAgent(text=text, run=run), id=id)

    async def interrupt(self, reason: str = "asked", *, run: str | None = None, wait: bool = False) -> Said:
        """What it does now stops, with every process of it, and it waits to be told how to go on.

        With `wait` returns when that has happened, or the run is over.
        """
        said = await self.say(orders.InterruptAgent(reason=reason, run=run))
        if wait:
            await self._until(
                said, lambda _, fact: isinstance(fact, facts.AgentInterrupted) and fact.order == said.order
            )
        return said

    async def pause(self, reason: str = "asked", *, run: str | None = None, wait: bool = False) -> Said:
        """Its processes are frozen where they are. With `wait` returns when they are, or the run is over."""
        said = await self.say(orders.PauseAgent(reason=reason, run=run))
        if wait:
            await self._until(said, lambda state, fact: state.paused or isinstance(fact, facts.UserResume))
        return said

    async def resume(self, *, run: str | None = None, wait: bool = False) -> Said:
        said = await self.say(orders.ResumeAgent(run=run))
        if wait:
            await self._until(said, lambda state, fact: not state.paused or isinstance(fact, facts.UserPause))
        return said

    async def stop(self, reason: str = "asked", *, run: str | None = None, wait: bool = False) -> Said:
        """The run ends, and its process with it. With `wait` returns when it has."""
        said = await self.say(orders.StopAgent(reason=reason, run=run))
        if wait:
            await self._until(said, lambda *_: False)
        return said

    async def approve(self, approval: str, *, reason: str = "", remember: bool = False) -> Said:
        """Let a tool call be made. Raises `Invalid` for what nobody waits for, or was answered before."""
        return await self.say(orders.ApproveAgent(approval=approval, reason=reason, remember=remember))

    async def reject(self, approval: str, *, reason: str = "") -> Said:
        """The reason is told to the agent. Raises as `approve` does."""
        return await self.say(orders.RejectAgent(approval=approval, reason=reason))

    async def pending(self) -> list[Asked]:
        """Tool calls of the newest run that wait for leave, oldest first."""
        run = await self.newest()
        if run is None:
            return []
        asked: dict[str, Asked] = {}
        async for event in run.events():
            match fact := event.fact:
                case facts.AgentApprovalRequested():
                    asked[fact.approval] = Asked(run.id, event.sequence, fact, event.head.time)
                case facts.UserApprove() | facts.UserReject() | facts.AgentApproved() | facts.AgentRejected():
                    asked.pop(fact.approval, None)
                case facts.AgentInterrupted() | facts.AgentCompleted() | facts.AgentError(final=True):
                    asked.clear()
        return list(asked.values())

    async def queued(self) -> list[Waiting]:
        """What was said to the newest run and not delivered, oldest first."""
        run = await self.newest()
        if run is None:
            return []
        waiting: dict[str, Waiting] = {}
        async for event in run.events():
            order = event.head.correlationid or ""
            match fact := event.fact:
                case facts.UserMessage() | facts.UserGuidance():
                    kind = event.head.type.partition(".")[2]
                    waiting[order] = Waiting(order, kind, fact.text, fact.by, event.sequence)
                case facts.UserInterrupt() if from_guardian(fact.by):
                    waiting[order] = Waiting(order, "interrupt", fact.reason, fact.by, event.sequence)
                case facts.AgentDelivered():
                    waiting.pop(fact.order, None)
        return list(waiting.values())

    async def run(self, id: str | None = None) -> AgentRun:  # noqa: A002
        """One that was begun here, open or over; the newest where none is named. Raises `Invalid` for none."""
        found = await (self.newest() if id is None else self._named(id))
        if found is None:
            raise Invalid(
                f"no agent has run in sandbox {self._sandbox!r}"
                if id is None
                else f"there is no run {id[:80]!r} in sandbox {self._sandbox!r}"
            )
        return found

    async def newest(self) -> AgentRun | None:
        return self._of(await reader.last(self._bus, subjects.event(self._sandbox, "agent.started") + ".*"))

    async def runs(self) -> list[RunState]:
        """All that were begun here, oldest first, in brief."""
        known: dict[str, RunState] = {}
        filters = [
            *subjects.events_of(self._sandbox, family="agent"),
            *subjects.events_of(self._sandbox, family="user"),
        ]
        async for entry in reader.read(self._bus, filters, self._first, follow=False):
            event = read_event(entry)
            if event is None or (fact := event.fact) is None:
                continue
            if isinstance(fact, facts.AgentStarted):
                known.setdefault(fact.run, runs.begin(entry.seq, event.head, fact))
            elif (state := known.get(getattr(fact, "run", ""))) is not None:
                known[state.run] = runs.apply(state, event.head, fact)
        return list(known.values())

    async def _named(self, run: str) -> AgentRun | None:
        return self._of(await reader.last(self._bus, subjects.event(self._sandbox, "agent.started", run)))

    def _of(self, entry: reader.Entry | None) -> AgentRun | None:
        event = None if entry is None else read_event(entry)
        if event is None or not isinstance(event.fact, facts.AgentStarted):
            return None
        return AgentRun(self._bus, self._sandbox, event.fact, event.sequence)

    async def say(self, order: Order, *, id: str | None = None) -> Said:  # noqa: A002
        """Any of the orders above, as it is. The same `id` again is the same order."""
        state = await load_state(self._bus, self._sandbox)
        begin = self._first if id else (await reader.bounds(self._bus)).last + 1
        command = await publish(self._bus, state.node, self._sandbox, order, id=id)
        letters = subjects.events_of(self._sandbox, family=subjects.DEAD_LETTER, scope=command)
        received = subjects.events_of(self._sandbox, family="user")
        async for entry in reader.read(self._bus, [*received, *letters], begin, follow=True):
            event = read_event(entry)
            if event is None:
                continue
            raise_if_given_up(event.head, command)
            if event.head.correlationid == command:
                run = subjects.parse_event(entry.subject).scope or ""
                return Said(command, run, entry.seq)
        raise Unavailable("the log has ended")

    async def _until(self, said: Said, done: Callable[[RunState, Fact | None], bool]) -> None:
        """Follow the run until it is over, or `done` says so of an event that is not older than what was said."""
        run = await self.run(said.run)
        state: RunState | None = None
        async for event in run.events(follow=True):
            state = run.fold(state, event)
            if state is None or event.sequence < said.sequence:
                continue
            if not state.is_open or done(state, event.fact):
                return
