"""An agent's run in brief, as a pure fold over its events."""

import datetime
import math
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from contracts.agents import subject_of
from contracts.events import agent
from contracts.message import EventHead, Fact, JsonObject

KEPT_RUNS = 6
KEPT_EACH = 10
"""Of what is queued, and of what waits for leave; the others are counted."""
BRIEF = 200
"""Characters of anything that somebody wrote."""
GUARDIAN = "guardian"
LARGEST = 2**63 - 1


class RunStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """Its turn is over, and it goes on with the next message."""
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


OVER = frozenset({RunStatus.COMPLETED, RunStatus.FAILED})


class Queued(Struct, frozen=True, kw_only=True):
    """Said, and not delivered."""

    order: str
    kind: str
    """message, guidance or interrupt."""
    text: str
    by: str = ""
    at: datetime.datetime


class Pending(Struct, frozen=True, kw_only=True):
    """A tool call that waits for leave."""

    approval: str
    tool: str
    subject: str
    """What it is about."""
    reason: str = ""
    asked_at: datetime.datetime
    expires_at: datetime.datetime | None = None
    answered: bool = False
    """And the agent has not heard it yet."""


class RunState(Struct, frozen=True, kw_only=True):
    run: str
    runtime: str
    status: RunStatus = RunStatus.RUNNING
    prompt: str = ""
    """Its beginning."""
    model: str | None = None
    resumed: str | None = None
    keep_open: bool = False
    attempt: int = 0
    process: str | None = None
    """The command that is its program."""
    turns: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    tool_calls: int = 0
    duration_ms: float = 0.0
    """Of its turns."""
    queued: tuple[Queued, ...] = ()
    """Oldest first."""
    queued_more: int = 0
    pending: tuple[Pending, ...] = ()
    """Oldest first."""
    pending_more: int = 0
    waiting: bool = False
    paused: bool = False
    closing: bool = False
    """Its last turn is over, and it hears nothing more."""
    started_at: datetime.datetime
    ended_at: datetime.datetime | None = None
    reason: str = ""
    """Why it ended, or waits, or is paused."""
    first_sequence: int = 0

    @property
    def is_open(self) -> bool:
        return self.status not in OVER


def brief(text: str) -> str:
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"


def ends(fact: object) -> bool:
    """Whether a run is over with it."""
    return isinstance(fact, agent.AgentCompleted) or (isinstance(fact, agent.AgentError) and fact.final)


def plus(sum_: float, more: float) -> float:
    """What is beyond all numbers, and JSON has no word for, is not added."""
    total = sum_ + more
    return total if math.isfinite(total) else sum_


def plus_whole(sum_: int, more: int) -> int:
    """What is beyond 64 bits is not added: a number can be read that has too many digits to be written."""
    total = sum_ + more
    return total if abs(total) <= LARGEST else sum_


def from_guardian(by: str) -> bool:
    return by.partition("/")[0] == GUARDIAN


def apply_all(runs: tuple[RunState, ...], sequence: int, head: EventHead, fact: Fact) -> tuple[RunState, ...]:
    """The runs of one sandbox, oldest first, one event further. The same object where nothing changed."""
    if isinstance(fact, agent.AgentStarted):
        if any(state.run == fact.run for state in runs):
            return runs
        return (*runs, begin(sequence, head, fact))[-KEPT_RUNS:]
    name = getattr(fact, "run", None)
    for index, state in enumerate(runs):
        if state.run == name:
            moved = apply(state, head, fact)
            return runs if moved is state else (*runs[:index], moved, *runs[index + 1 :])
    return runs


def begin(sequence: int, head: EventHead, fact: agent.AgentStarted) -> RunState:
    return RunState(
        run=fact.run,
        runtime=fact.runtime,
        prompt=brief(fact.prompt),
        model=fact.model,
        resumed=fact.resumed,
        keep_open=fact.keep_open,
        started_at=head.time,
        first_sequence=sequence,
    )


def apply(state: RunState, head: EventHead, fact: Fact) -> RunState:
    """One event of the run further. The same object where nothing changed; a run that is over stays so."""
    if not state.is_open:
        return state
    match fact:
        case agent.AgentAttached():
            # A new attempt has turns of its own.
            closing = state.closing and fact.attempt == state.attempt
            return replace(state, attempt=fact.attempt, process=fact.process, closing=closing)
        case agent.AgentClosing():
            return replace(state, closing=True)
        case agent.AgentToolUse():
            return replace(state, tool_calls=state.tool_calls + 1)
        case agent.AgentMetrics():
            return _spent(state, fact)
        case agent.AgentWaiting():
            return _standing(replace(state, waiting=True, reason=brief(fact.reason)))
        case agent.AgentPaused():
            return _standing(replace(state, paused=True, reason=brief(fact.reason)))
        case agent.AgentResumed():
            return _standing(replace(state, paused=False, reason=""))
        case agent.AgentInterrupted():
            # The tool calls that waited for leave are not made any more.
            return replace(state, pending=(), pending_more=0)
        case agent.AgentCompleted():
            return _ended(state, head, RunStatus.COMPLETED, fact.reason)
        case agent.AgentError(final=True):
            return _ended(state, head, RunStatus.FAILED, fact.failure.message)
        case agent.UserMessage() | agent.UserGuidance():
            return _said(state, head, head.type.partition(".")[2], fact.text, fact.by)
        case agent.UserInterrupt() if from_guardian(fact.by):
            return _said(state, head, "interrupt", fact.reason, fact.by)
        case agent.AgentDelivered():
            return _delivered(state, fact)
        case agent.AgentApprovalRequested():
            return _asked(state, head, fact)
        case agent.AgentRejected(by="policy", expired=False) if fact.approval not in _approvals(state):
            # A rule's own denial, which nobody was asked about.
            return state
        case agent.UserApprove() | agent.UserReject():
            known = (replace(each, answered=each.answered or each.approval == fact.approval) for each in state.pending)
            return replace(state, pending=tuple(known))
        case agent.AgentApproved() | agent.AgentRejected():
            return _settled(state, fact.approval)
    return state


def _standing(state: RunState) -> RunState:
    status = RunStatus.PAUSED if state.paused else RunStatus.WAITING if state.waiting else RunStatus.RUNNING
    return replace(state, status=status)


def _ended(state: RunState, head: EventHead, status: RunStatus, reason: str) -> RunState:
    return replace(
        state,
        status=status,
        reason=brief(reason),
        ended_at=head.time,
        pending=(),
        pending_more=0,
        waiting=False,
        paused=False,
        closing=False,
    )


def _spent(state: RunState, fact: agent.AgentMetrics) -> RunState:
    return replace(
        state,
        turns=plus_whole(state.turns, fact.turns),
        tokens=plus_whole(state.tokens, fact.input_tokens + fact.output_tokens),
        cost_usd=plus(state.cost_usd, fact.cost_usd),
        duration_ms=plus(state.duration_ms, fact.duration_ms),
        model=fact.model or state.model,
    )


def _said(state: RunState, head: EventHead, kind: str, text: str, by: str) -> RunState:
    if len(state.queued) >= KEPT_EACH:
        return replace(state, queued_more=state.queued_more + 1)
    said = Queued(order=head.correlationid or "", kind=kind, text=brief(text), by=by, at=head.time)
    return replace(state, queued=(*state.queued, said))


def _delivered(state: RunState, fact: agent.AgentDelivered) -> RunState:
    left = tuple(each for each in state.queued if each.order != fact.order)
    more = state.queued_more if len(left) < len(state.queued) else max(state.queued_more - 1, 0)
    reason = "" if state.waiting else state.reason
    return _standing(replace(state, queued=left, queued_more=more, waiting=False, reason=reason))


def _asked(state: RunState, head: EventHead, fact: agent.AgentApprovalRequested) -> RunState:
    if len(state.pending) >= KEPT_EACH:
        return replace(state, pending_more=state.pending_more + 1)
    return replace(state, pending=(*state.pending, pending(head.time, fact)))


def pending(at: datetime.datetime, fact: agent.AgentApprovalRequested) -> Pending:
    """In brief, what was asked for at that time."""
    expires = None if fact.expires_ms is None else at + datetime.timedelta(milliseconds=fact.expires_ms)
    return Pending(
        approval=fact.approval,
        tool=brief(fact.tool),
        subject=brief(_subject(fact.input)),
        reason=brief(fact.reason),
        asked_at=at,
        expires_at=expires,
    )


def _subject(arguments: JsonObject) -> str:
    try:
        return subject_of(arguments)
    except RecursionError:
        # It could just be read; nobody can write it out.
        return ""


def _approvals(state: RunState) -> set[str]:
    return {each.approval for each in state.pending}


def _settled(state: RunState, approval: str) -> RunState:
    left = tuple(each for each in state.pending if each.approval != approval)
    more = state.pending_more if len(left) < len(state.pending) else max(state.pending_more - 1, 0)
    return replace(state, pending=left, pending_more=more)
