"""An agent's turn is open, and nothing comes of it.

Waiting is not idleness: while a command or a tool call runs, while an approval is pending or the next message is
waited for, while the agent or its sandbox is paused or down, no time passes here. So the output of commands need not be
read at all: it only comes while one runs.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from contracts.events import agent, command
from contracts.events.guardian import GuardianEscalated, GuardianIntervention
from contracts.guardian import Finding, NoProgress, Step
from contracts.runs import ends
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief
from services.guardian.rules.rule import Outcome, Rule
from services.guardian.seen import TICK, Seen

RUNS = 16
COMMANDS = 256
WAITS = 256
LONGEST_DOUBLING = 40

_OF_RUNS = frozenset(
    {
        "agent.started", "agent.attached", "agent.thinking", "agent.message", "agent.tool_use", "agent.tool_result",
        "agent.approval_requested", "agent.approved", "agent.rejected", "agent.interrupted", "agent.paused",
        "agent.resumed", "agent.waiting", "agent.delivered", "agent.metrics", "agent.completed", "agent.error",
        "user.message", "guardian.intervention", "guardian.escalated",
    }
)  # fmt: skip
_AROUND = frozenset(
    {"tool.invoked", "tool.returned", "command.started", "sandbox.started", "sandbox.resumed", "sandbox.recovered"}
)
_HALTS = frozenset({"sandbox.paused", "sandbox.stopped", "sandbox.failed", "sandbox.recovering", "health.died"})
_CHANGES = frozenset({"file.created", "file.modified", "file.deleted", "file.moved", "file.batch"})
_ENDS = frozenset({"command.completed", "command.timed_out", "command.cancelled", "command.rejected", "command.lost"})


_ECHOES = (
    agent.AgentMetrics,
    agent.AgentToolResult,
    agent.AgentApproved,
    agent.AgentRejected,
    agent.AgentAttached,
    agent.AgentPaused,
    agent.AgentResumed,
    agent.AgentError,
)
"""What may still come of a turn that is over, and does not open it again."""
_BETWEEN_TURNS = (agent.AgentInterrupted, agent.AgentWaiting)
"""Now it waits for somebody."""


class Turn(Struct, frozen=True):
    active_ms: int
    sequence: int
    """The last event that was a sign of life."""
    waits: Mapping[str, int] = {}
    """Tool calls and approvals without an answer, and the sequence of each."""
    told: int = 0


class State(Struct, frozen=True):
    turns: Mapping[str, Turn] = {}
    commands: Mapping[str, int] = {}
    processes: Mapping[str, str] = {}
    """Of agents, and the run of each: nothing that anybody waits for."""
    paused: Mapping[str, int] = {}
    """Runs that are."""
    halted: bool = False


def step(settings: NoProgress, state: State, event: Seen) -> Outcome:
    if event.tag == TICK:
        return _look(settings, state, event.at_ms)
    fact = event.fact
    run = getattr(fact, "run", None)
    if isinstance(fact, GuardianIntervention | GuardianEscalated):
        return Outcome(_held(state, fact))
    if isinstance(run, str):
        return Outcome(_of_run(state, event, brief(run)))
    return Outcome(_around(state, event))


def due(settings: NoProgress, state: State) -> int | None:
    moments = [_due(settings, turn) for run, turn in state.turns.items() if _is_idle(state, run, turn)]
    return min(moments, default=None)


def _due(settings: NoProgress, turn: Turn) -> int:
    return turn.active_ms + int(_patience_s(settings, turn) * 1000)


def _patience_s(settings: NoProgress, turn: Turn) -> float:
    """Twice as long each time, so that a silence of weeks is told a few times and no more."""
    return settings.after_s * (1 << min(turn.told, LONGEST_DOUBLING))


def _is_idle(state: State, run: str, turn: Turn) -> bool:
    return not (state.halted or state.commands or turn.waits or run in state.paused)


def _look(settings: NoProgress, state: State, now_ms: int) -> Outcome:
    findings: list[Finding] = []
    for run, turn in state.turns.items():
        if _is_idle(state, run, turn) and _due(settings, turn) <= now_ms:
            findings.append(_finding(run, turn, _patience_s(settings, turn)))
            state = replace(state, turns=with_entry(state.turns, run, replace(turn, told=turn.told + 1), RUNS))
    return Outcome(state, tuple(findings))


def _finding(run: str, turn: Turn, idle_s: float) -> Finding:
    return Finding(
        rule=RULE.name,
        key=f"{run}/{turn.sequence}",
        text=f"no output, no file change and no tool call for {idle_s:g} s, and nothing runs that it could wait for",
        evidence=(turn.sequence,),
        run=run,
    )


def _of_run(state: State, event: Seen, run: str) -> State:
    """An event of the run itself is a sign of life, and of most kinds opens a turn where none was."""
    fact = event.fact
    if ends(fact):
        return replace(state, turns=without(state.turns, run), paused=without(state.paused, run))
    if isinstance(fact, _BETWEEN_TURNS):
        return replace(state, turns=without(state.turns, run))
    state = _noted(state, event, run)
    known = state.turns.get(run)
    if known is None and isinstance(fact, _ECHOES):
        return state
    waits = known.waits if known else {}
    match fact:
        case agent.AgentToolUse():
            waits = with_entry(waits, f"call/{brief(fact.call)}", event.sequence, WAITS)
        case agent.AgentToolResult():
            waits = without(waits, f"call/{brief(fact.call)}")
        case agent.AgentApprovalRequested():
            waits = with_entry(waits, f"approval/{brief(fact.approval)}", event.sequence, WAITS)
        case agent.AgentApproved() | agent.AgentRejected():
            waits = without(waits, f"approval/{brief(fact.approval)}")
    return replace(state, turns=with_entry(state.turns, run, Turn(event.at_ms, event.sequence, waits), RUNS))


def _noted(state: State, event: Seen, run: str) -> State:
    """What is known of a run beside its turn."""
    match event.fact:
        case agent.AgentAttached():
            process = brief(event.fact.process)
            # It may be on the log before it.
            commands = without(state.commands, process)
            return replace(state, processes=with_entry(state.processes, process, run, RUNS), commands=commands)
        case agent.AgentPaused():
            return replace(state, paused=with_entry(state.paused, run, event.sequence, RUNS))
        case agent.AgentResumed():
            return replace(state, paused=without(state.paused, run))
    return state


def _around(state: State, event: Seen) -> State:
    """What happens in the sandbox is a sign of life of every run in it."""
    fact = event.fact
    if isinstance(fact, command.CommandStarted):
        # The process of the agent itself is not something that it waits for.
        if brief(fact.exec) not in state.processes:
            state = replace(state, commands=with_entry(state.commands, brief(fact.exec), event.sequence, COMMANDS))
    elif event.tag in _ENDS:
        state = replace(state, commands=without(state.commands, brief(getattr(fact, "exec", ""))))
    elif event.tag in _HALTS:
        state = replace(state, halted=True)
    elif event.tag.startswith("sandbox."):
        state = replace(state, halted=False, commands={} if event.tag != "sandbox.resumed" else state.commands)
    return replace(state, turns={run: _stirred(turn, event) for run, turn in state.turns.items()})


def _stirred(turn: Turn, event: Seen) -> Turn:
    return Turn(event.at_ms, event.sequence, turn.waits)


def _held(state: State, fact: GuardianIntervention | GuardianEscalated) -> State:
    """A run that was paused by us is not idle: it opens its turn again with its next sign of life."""
    held = fact.run is not None and fact.step in (Step.PAUSE, Step.STOP)
    return replace(state, turns=without(state.turns, fact.run or "")) if held else state


RULE = Rule(
    name="no_progress",
    about="a run's turn is open and for `after_s` there is no output, file change or tool call; waiting for a command, "
    "a tool, an approval, the next message, or because it or its sandbox is paused does not count",
    reads=_OF_RUNS | _AROUND | _ENDS | _HALTS | _CHANGES,
    settings=NoProgress,
    begin=State,
    step=step,
    due=due,
)
