"""Nearly everything fails, and mostly in the same way."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from contracts.guardian import ErrorStorm, Finding
from services.guardian.bounded import with_entry
from services.guardian.calls import COMMANDS, ENDS, TOOLS, Call
from services.guardian.rules.rule import Outcome, Rule, newest
from services.guardian.seen import Seen

LANES = 16
CHANGES = frozenset({"file.created", "file.modified", "file.deleted", "file.moved", "file.batch"})
_WORDS = {COMMANDS: "commands", TOOLS: "file operations"}


class Result(Struct, frozen=True):
    print: str | None
    """Of an error; None for anything else."""
    sequence: int
    at_ms: int


class State(Struct, frozen=True):
    lanes: Mapping[str, tuple[Result, ...]] = {}


def step(settings: ErrorStorm, state: State, event: Seen) -> Outcome:
    if event.tag in CHANGES:
        return Outcome(_worked(settings, state, event))
    call = event.call
    if call is None:
        return Outcome(state)
    result = Result(None if call.ok else call.print, event.sequence, event.at_ms)
    results = (*state.lanes.get(call.lane, ()), result)[-settings.last :]
    after = State(with_entry(state.lanes, call.lane, results, LANES))
    if call.ok or not _is_storm(settings, results):
        return Outcome(after)
    return Outcome(after, (_finding(call, results),))


def _worked(settings: ErrorStorm, state: State, event: Seen) -> State:
    """Who fails, changes a file and tries again is at work: a change weighs as much as a success."""
    change = Result(None, event.sequence, event.at_ms)
    return State({lane: (*results, change)[-settings.last :] for lane, results in state.lanes.items()})


def _is_storm(settings: ErrorStorm, results: tuple[Result, ...]) -> bool:
    errors = [each.print for each in results if each.print is not None]
    if len(results) < settings.last or len(errors) < settings.share * settings.last:
        return False
    if results[-1].at_ms - results[0].at_ms > settings.within_s * 1000:
        return False
    counts = Counter(errors)
    return sum(count for count in counts.values() if count > 1) >= settings.alike * len(errors)


def _finding(call: Call, results: tuple[Result, ...]) -> Finding:
    errors = tuple(each.sequence for each in results if each.print is not None)
    what = _WORDS.get(call.lane, "tool calls")
    return Finding(
        rule=RULE.name,
        key=call.lane,
        text=f"{len(errors)} of the last {len(results)} {what} failed, most of them alike",
        evidence=newest(errors),
        run=call.run,
    )


RULE = Rule(
    name="error_storm",
    about="of the `last` tool results (of a run), commands or file operations, `share` are errors, `alike` of them are "
    "alike, and all of it came within `within_s`",
    reads=ENDS | CHANGES,
    settings=ErrorStorm,
    begin=State,
    step=step,
)
