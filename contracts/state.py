"""A sandbox's state as a pure fold over its events. Everything derived is derived here."""

import datetime
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from contracts import approvals, runs
from contracts.approvals import Approvals
from contracts.codec import decode_fact
from contracts.errors import Failure, Invalid
from contracts.events import agent, command, health, sandbox, tool
from contracts.message import EventHead, Fact
from contracts.runs import RunState
from contracts.spec import Isolation, SandboxSpec

RECENT_COMMANDS = 20
ARGV_CHARACTERS = 500
MOST_RUNNING = 5000
"""More than the processes that a sandbox may have: only an invented history has so many commands without an end."""
ORDERS_REMEMBERED = 32
"""An order that was obeyed may be delivered again, for a while."""
UNUSABLE = (ArithmeticError, TypeError, ValueError, RecursionError)
"""What values that no honest writer writes can do to arithmetic: a time beyond all times, one without its zone."""


class Status(StrEnum):
    CREATING = "creating"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    COMPLETED = "completed"
    FAILED = "failed"
    ERROR = "error"
    REMOVED = "removed"


class CommandState(Struct, frozen=True, kw_only=True):
    exec: str
    argv: tuple[str, ...] = ()
    started_at: datetime.datetime | None = None
    first_sequence: int = 0
    totals: command.Totals = command.Totals()
    pty: bool = False
    outcome: str | None = None
    """The terminal event's kind; None while it runs."""
    exit: command.Exit | None = None
    cause: str | None = None
    duration_ms: float | None = None


class Recovery(Struct, frozen=True, kw_only=True):
    attempt: int
    """0 where a person asked."""
    reason: str
    command: str | None = None
    """The id of the order that asked for it."""
    begun_at: datetime.datetime
    sequence: int | None = None
    """Its files are restored as of this sequence; None = as they are."""


class SandboxState(Struct, frozen=True, kw_only=True):
    sandbox: str
    status: Status
    node: str
    isolation: Isolation
    spec: SandboxSpec
    requested_by: str | None = None
    """The id of the `sandbox.create` that asked for it."""
    by: str = ""
    """Who asked for it, as in `sandbox.creating`."""
    workspace: str = "/workspace"
    created: bool = False
    """Its `sandbox.created` is on the record."""
    instance: str | None = None
    container: str | None = None
    enforcement: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    """What was worth telling when it was made: files of a fork that could not be restored, secrets that are missing."""
    created_at: datetime.datetime
    started_at: datetime.datetime | None = None
    completed_at: datetime.datetime | None = None
    last_event_at: datetime.datetime
    first_sequence: int
    lifecycle_sequence: int
    """The last `sandbox.*` event: what the next one must expect."""
    applied_sequence: int
    error: Failure | None = None
    health: str = "unknown"
    retries: int = 0
    """Attempts at recovery; see `contracts.recovery`."""
    recovery: Recovery | None = None
    """The last that was begun."""
    former_nodes: tuple[str, ...] = ()
    """Whose it was before it was recovered elsewhere."""
    obeyed: tuple[str, ...] = ()
    """The ids of the last orders that moved it, oldest first."""
    running: dict[str, CommandState] = {}
    recent: tuple[CommandState, ...] = ()
    """The last commands that ended, oldest first."""
    commands: int = 0
    tool_calls: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    approvals: Approvals = Approvals()
    """What it asked for and may not reach, and what was answered."""
    runs: tuple[RunState, ...] = ()
    """The last runs of agents, oldest first: the one that is open, if any, is the last."""


class Sequenced(NamedTuple):
    sequence: int
    head: EventHead


def fold(events: Iterable[Sequenced], state: SandboxState | None = None) -> SandboxState | None:
    """State after the events of one sandbox, in order; None while there was no `sandbox.creating`."""
    for sequence, head in events:
        state = apply(state, sequence, head)
    return state


def apply(state: SandboxState | None, sequence: int, head: EventHead) -> SandboxState | None:
    """One event further. An event already applied, or of an unknown tag, changes nothing but the cursors.

    Raises `Invalid` when the data of a known tag cannot be read, or reckoned with.
    """
    if state is not None and sequence <= state.applied_sequence:
        return state
    fact = decode_fact(head)
    try:
        return apply_fact(state, sequence, head, fact)
    except UNUSABLE as error:
        raise Invalid(f"{head.type} has values that nobody can reckon with: {error}") from error


def apply_fact(state: SandboxState | None, sequence: int, head: EventHead, fact: Fact | None) -> SandboxState | None:
    """The same for an event that follows what was applied, and whose data is decoded already.

    None = nothing is known of it but that it was there. Raises what is `UNUSABLE`.
    """
    if isinstance(fact, sandbox.SandboxCreating):
        return _created(sequence, head, fact)
    if state is None:
        return None
    family = head.type.partition(".")[0]
    if family == "sandbox":
        obeyed = _with_order(state.obeyed, head.correlationid)
        moved = replace(
            state,
            applied_sequence=sequence,
            last_event_at=head.time,
            lifecycle_sequence=sequence,
            obeyed=obeyed,
        )
        return moved if fact is None else _lifecycle(moved, head, fact)
    if family == "command" and isinstance(fact, (command.CommandOutput, command.CommandInput)):
        return _grown(state, sequence, head, fact)
    moved = replace(state, applied_sequence=sequence, last_event_at=head.time)
    if fact is None:
        return moved
    if family == "command":
        return _command(moved, sequence, head, fact)
    if family == "network":
        asked = approvals.apply(state.approvals, fact, head.time, head.correlationid)
        return replace(moved, approvals=asked) if asked is not state.approvals else moved
    if family in ("agent", "user"):
        known = runs.apply_all(state.runs, sequence, head, fact)
        moved = replace(moved, runs=known) if known is not state.runs else moved
    return _around(moved, fact)


def _with_order(obeyed: tuple[str, ...], command: str | None) -> tuple[str, ...]:
    if command is None or command in obeyed:
        return obeyed
    return (*obeyed, command)[-ORDERS_REMEMBERED:]


def _created(sequence: int, head: EventHead, fact: sandbox.SandboxCreating) -> SandboxState:
    return SandboxState(
        sandbox=head.sandboxid,
        status=Status.CREATING,
        node=fact.node,
        isolation=fact.isolation,
        spec=fact.spec,
        requested_by=head.correlationid,
        by=fact.by,
        obeyed=_with_order((), head.correlationid),
        workspace=fact.spec.workspace.path,
        created_at=head.time,
        last_event_at=head.time,
        first_sequence=sequence,
        lifecycle_sequence=sequence,
        applied_sequence=sequence,
    )


def _lifecycle(state: SandboxState, head: EventHead, fact: Fact) -> SandboxState:
    match fact:
        case sandbox.SandboxCreated():
            return replace(
                state,
                created=True,
                node=fact.node,
                isolation=fact.isolation,
                workspace=fact.workspace,
                enforcement=fact.enforcement,
                notes=fact.notes,
                container=fact.container,
            )
        case sandbox.SandboxStarted():
            return replace(
                state,
                status=Status.RUNNING,
                instance=fact.instance,
                started_at=head.time,
                completed_at=None,
                error=None,
                health="unknown",
                retries=0,
            )
        case sandbox.SandboxPaused():
            return replace(state, status=Status.PAUSED)
        case sandbox.SandboxResumed():
            return replace(state, status=Status.RUNNING)
        case sandbox.SandboxStopped():
            return replace(state, status=Status.STOPPED, completed_at=head.time, error=fact.failure)
        case sandbox.SandboxRemoved():
            return replace(state, status=Status.REMOVED, completed_at=state.completed_at or head.time)
        case sandbox.SandboxFailed():
            return replace(state, status=Status.FAILED, completed_at=head.time, error=fact.failure)
        case sandbox.SandboxRecovering():
            return _recovering(state, head, fact)
        case sandbox.SandboxRecovered():
            return replace(
                state,
                status=Status.RUNNING,
                node=fact.node,
                instance=fact.instance,
                retries=fact.attempt,
                started_at=head.time,
                completed_at=None,
                error=None,
                health="unknown",
            )
        case sandbox.SandboxNetworkChanged():
            # Into the specification, so that whatever is made from it again has the network of now.
            return replace(state, spec=replace(state.spec, network=fact.network))
    return state


def _recovering(state: SandboxState, head: EventHead, fact: sandbox.SandboxRecovering) -> SandboxState:
    recovery = Recovery(
        attempt=fact.attempt,
        reason=fact.reason,
        command=head.correlationid,
        begun_at=head.time,
        sequence=fact.sequence,
    )
    others = {*state.former_nodes, state.node} - {fact.node}
    return replace(
        state,
        status=Status.CREATING,
        node=fact.node,
        retries=fact.attempt,
        recovery=recovery,
        former_nodes=tuple(sorted(others)),
    )


def _command(state: SandboxState, sequence: int, head: EventHead, fact: Fact) -> SandboxState:
    match fact:
        case command.CommandStarted():
            begun = CommandState(
                exec=fact.exec,
                argv=_brief(fact.argv),
                started_at=head.time,
                first_sequence=sequence,
                pty=fact.pty is not None,
            )
            return replace(state, running=_with_begun(state.running, begun), commands=state.commands + 1)
        case command.CommandCompleted() | command.CommandTimedOut() | command.CommandCancelled():
            ended = replace(
                _known(state, fact.exec, sequence),
                outcome=head.type.partition(".")[2],
                exit=fact.exit,
                cause=fact.cause,
                duration_ms=fact.duration_ms,
                totals=fact.totals,
            )
            return _ended(state, ended)
        case command.CommandLost():
            lost = replace(_known(state, fact.exec, sequence), outcome="lost", cause=fact.cause, totals=fact.totals)
            return _ended(state, lost)
        case command.CommandRejected():
            rejected = replace(_known(state, fact.exec, sequence), outcome="rejected", cause=fact.failure.message)
            return _ended(state, rejected)
    return state


def _with_begun(running: dict[str, CommandState], begun: CommandState) -> dict[str, CommandState]:
    known = {**running, begun.exec: begun}
    if len(known) > MOST_RUNNING:
        del known[next(iter(known))]
    return known


def _brief(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Enough to know it by; the whole stands in `command.started`."""
    shown: list[str] = []
    room = ARGV_CHARACTERS
    for word in argv:
        if len(word) > room:
            return (*shown, f"{word[:room]}…")
        shown.append(word)
        room -= len(word) + 1
    return tuple(shown)


def _known(state: SandboxState, exec_id: str, sequence: int) -> CommandState:
    return state.running.get(exec_id) or CommandState(exec=exec_id, first_sequence=sequence)


def _ended(state: SandboxState, ended: CommandState) -> SandboxState:
    running = {key: value for key, value in state.running.items() if key != ended.exec}
    return replace(state, running=running, recent=(*state.recent, ended)[-RECENT_COMMANDS:])


def _grown(
    state: SandboxState, sequence: int, head: EventHead, fact: command.CommandOutput | command.CommandInput
) -> SandboxState:
    """Most events are of this kind: one copy of the state, and no more."""
    running = state.running
    if (known := running.get(fact.exec)) is not None:
        stream = command.Stream.STDIN if isinstance(fact, command.CommandInput) else fact.stream
        totals = replace(known.totals, **{stream.value: runs.plus_whole(fact.offset, fact.size)})
        running = {**running, fact.exec: replace(known, totals=totals)}
    return replace(state, applied_sequence=sequence, last_event_at=head.time, running=running)


def _around(state: SandboxState, fact: Fact) -> SandboxState:
    match fact:
        case health.HealthHealthy():
            return replace(state, health="healthy")
        case health.HealthUnhealthy():
            return replace(state, health="unhealthy")
        case health.HealthDied():
            # It may be told after the sandbox has come back: then it is not of this life.
            return replace(state, health="died") if fact.instance in (None, state.instance) else state
        case agent.AgentMetrics():
            spent = fact.input_tokens + fact.output_tokens
            cost_usd = runs.plus(state.cost_usd, fact.cost_usd)
            return replace(state, cost_usd=cost_usd, tokens=runs.plus_whole(state.tokens, spent))
        case agent.AgentToolUse() | tool.ToolInvoked():
            return replace(state, tool_calls=state.tool_calls + 1)
    return state
