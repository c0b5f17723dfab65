"""The same call with the same answer, again and again."""

from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from contracts.events.agent import AgentCompleted, AgentError
from contracts.guardian import Finding, RepeatedCall
from contracts.runs import ends
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief, without_run
from services.guardian.rules.rule import Outcome, Rule, newest, shown
from services.guardian.seen import Seen

RUNS = 16
BACKING_OFF = 1.3
"""Each wait is so many times the one before."""
WAIT_MS = 500
"""Anything shorter is no wait."""


class Streak(Struct, frozen=True):
    print: str
    times: tuple[int, ...]
    """When each of them ended."""
    evidence: tuple[int, ...]


class State(Struct, frozen=True):
    streaks: Mapping[str, Streak] = {}
    """By lane."""


def step(settings: RepeatedCall, state: State, event: Seen) -> Outcome:
    if isinstance(event.fact, AgentCompleted | AgentError) and ends(event.fact):
        return Outcome(State(without_run(state.streaks, brief(event.fact.run))))
    call = event.call
    if call is None or call.run is None:
        return Outcome(state)
    if call.lasted_ms >= settings.waits_s * 1000:
        return Outcome(State(without(state.streaks, call.lane)))
    before = state.streaks.get(call.lane)
    if before is None or before.print != call.print:
        before = Streak(call.print, (), ())
    streak = Streak(
        call.print,
        (*before.times, event.at_ms)[-settings.times :],
        (*before.evidence, *call.evidence)[-2 * settings.times :],
    )
    after = State(with_entry(state.streaks, call.lane, streak, RUNS))
    if len(streak.times) < settings.times or _is_patient(settings, streak.times):
        return Outcome(after)
    finding = Finding(
        rule=RULE.name,
        key=f"{call.lane}/{call.print}",
        text=f"{shown(call.tool)} was called {settings.times} times in a row with the same arguments, "
        "and gave the same result each time",
        evidence=newest(streak.evidence),
        run=call.run,
    )
    return Outcome(after, (finding,))


def _is_patient(settings: RepeatedCall, times: tuple[int, ...]) -> bool:
    """Polling now and then, or trying again with longer and longer waits."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    backs_off = gaps[0] >= WAIT_MS and all(later >= earlier * BACKING_OFF for earlier, later in pairwise(gaps))
    return (backs_off and len(gaps) > 1) or times[-1] - times[0] > settings.within_s * 1000


RULE = Rule(
    name="repeated_call",
    about="an agent calls the same tool with the same arguments and gets the same result, `times` in a row",
    reads=frozenset({"agent.tool_result", "agent.completed", "agent.error"}),
    settings=RepeatedCall,
    begin=State,
    step=step,
)
