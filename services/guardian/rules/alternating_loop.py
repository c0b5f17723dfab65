"""A round of two or more calls, gone through again and again with the same answers."""

from collections.abc import Mapping

from msgspec import Struct

from contracts.events.agent import AgentCompleted, AgentError
from contracts.guardian import AlternatingLoop, Finding
from contracts.runs import ends
from services.guardian.bounded import with_entry
from services.guardian.calls import brief, without_run
from services.guardian.rules.rule import Outcome, Rule, newest, shown
from services.guardian.seen import Seen

RUNS = 16


class Made(Struct, frozen=True):
    print: str
    tool: str
    sequence: int
    at_ms: int
    waited: bool


class State(Struct, frozen=True):
    runs: Mapping[str, tuple[Made, ...]] = {}
    """By lane."""


def step(settings: AlternatingLoop, state: State, event: Seen) -> Outcome:
    if isinstance(event.fact, AgentCompleted | AgentError) and ends(event.fact):
        return Outcome(State(without_run(state.runs, brief(event.fact.run))))
    call = event.call
    if call is None or call.run is None:
        return Outcome(state)
    waited = call.lasted_ms >= settings.waits_s * 1000
    made = Made(call.print, shown(call.tool), call.evidence[-1], event.at_ms, waited)
    calls = (*state.runs.get(call.lane, ()), made)[-settings.longest * settings.times :]
    after = State(with_entry(state.runs, call.lane, calls, RUNS))
    size = _round(calls, settings)
    loop = calls[-(size or 0) * settings.times :]
    if size is None or _is_patient(settings, loop):
        return Outcome(after)
    finding = Finding(
        rule=RULE.name,
        key=f"{call.lane}/{'+'.join(sorted(each.print for each in loop[:size]))}",
        text=f"{' then '.join(each.tool for each in loop[:size])}: the same round of {size} calls with the same "
        f"results, {settings.times} times",
        evidence=newest(tuple(each.sequence for each in loop)),
        run=call.run,
    )
    return Outcome(after, (finding,))


def _round(calls: tuple[Made, ...], settings: AlternatingLoop) -> int | None:
    """How many calls make one round, if the last ones are nothing but rounds. One call alone is no round."""
    prints = [each.print for each in calls]
    for size in range(2, settings.longest + 1):
        last = prints[-size * settings.times :]
        if len(last) == size * settings.times and last == last[:size] * settings.times and len(set(last)) > 1:
            return size
    return None


def _is_patient(settings: AlternatingLoop, loop: tuple[Made, ...]) -> bool:
    """Sleeping and looking in turns, or going round at leisure."""
    return any(each.waited for each in loop) or loop[-1].at_ms - loop[0].at_ms > settings.within_s * 1000


RULE = Rule(
    name="alternating_loop",
    about="an agent goes through the same round of calls (A B A B …) with the same results, `times` in a row",
    reads=frozenset({"agent.tool_result", "agent.completed", "agent.error"}),
    settings=AlternatingLoop,
    begin=State,
    step=step,
)
