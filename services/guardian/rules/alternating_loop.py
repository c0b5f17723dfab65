"""A round of two or more calls, gone through again and again with the same answers."""

from collections.abc import Mapping

from msgspec import Struct

from contracts.events.agent import AgentCompleted, AgentError
from contracts.guardian import AlternatingLoop, Finding
from services.guardian.bounded import with_entry, without
from services.guardian.calls import brief
from services.guardian.rules.rule import Outcome, Rule, newest, shown
from services.guardian.seen import Seen

RUNS = 16


class Made(Struct, frozen=True):
    print: str
    tool: str
    sequence: int


class State(Struct, frozen=True):
    runs: Mapping[str, tuple[Made, ...]] = {}


def step(settings: AlternatingLoop, state: State, event: Seen) -> Outcome:
    if isinstance(event.fact, AgentCompleted | AgentError):
        return Outcome(State(without(state.runs, brief(event.fact.run))))
    call = event.call
    if call is None or call.run is None:
        return Outcome(state)
    made = Made(call.print, shown(call.tool[:100]), call.evidence[-1])
    calls = (*state.runs.get(call.run, ()), made)[-settings.longest * settings.times :]
    after = State(with_entry(state.runs, call.run, calls, RUNS))
    size = _round(calls, settings)
    if size is None:
        return Outcome(after)
    loop = calls[-size * settings.times :]
    finding = Finding(
        rule=RULE.name,
        key=f"{call.run}/{'+'.join(sorted(each.print for each in loop[:size]))}",
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


RULE = Rule(
    name="alternating_loop",
    about="an agent goes through the same round of calls (A B A B …) with the same results, `times` in a row",
    reads=frozenset({"agent.tool_use", "agent.tool_result", "agent.completed", "agent.error"}),
    settings=AlternatingLoop,
    begin=State,
    step=step,
)
