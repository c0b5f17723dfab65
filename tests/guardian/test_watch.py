"""Any log whatever: nothing raises, nothing grows without end, and one rule's fault is its own."""

import json
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import subjects
from contracts.errors import Invalid
from contracts.events.sandbox import SandboxRemoved
from contracts.guardian import Budget, Guardian, NoProgress, OutsidePaths, Policy, RepeatedCall
from services.guardian.engine import MAX_SANDBOXES, Engine, bind, filters
from services.guardian.history import History
from services.guardian.moments import milliseconds
from services.guardian.rules.rule import Outcome, Rule
from services.guardian.rules.rule_set import Bound, RuleSet
from services.guardian.rules.table import RULES
from services.guardian.seen import Seen
from services.guardian.watch import Watch
from tests.contracts.golden_files import golden, golden_tags
from tests.contracts.properties import calm
from tests.guardian.story import Line, Story, judge, rules_of

EAGER = Guardian(
    repeated_call=RepeatedCall(times=2),
    no_progress=NoProgress(after_s=1),
    budget=Budget(max_usd=0.1, max_tokens=5),
    outside_paths=OutsidePaths(paths=()),
)
KEPT_BYTES = 400_000
"""Of one sandbox, at the worst."""

NAMES = st.sampled_from(["run-1", "run-2", "", "ü" * 5000])
"""Few, so that events belong together; and one that is far too long."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["command", "argv", "path", "file_path"]), JSON, max_size=3)
TAGS = sorted(tag for tag in golden_tags("events") if not tag.startswith(("vitals.", "dead_letter.")))


class Written(NamedTuple):
    after_ms: int
    raw: bytes


@st.composite
def written(draw: st.DrawFn) -> Written:
    """An event of any tag, with any values that its fields may have, and some that they may not."""
    message: dict[str, Any] = json.loads(golden("events", draw(st.sampled_from(TAGS))))
    data = message["data"]
    for name, value in data.items():
        if name in ("run", "call", "exec", "approval", "tool"):
            data[name] = draw(NAMES)
        elif name in ("input", "arguments"):
            data[name] = draw(ARGUMENTS)
        elif isinstance(value, bool):
            data[name] = draw(st.booleans())
        elif isinstance(value, int | float):
            data[name] = draw(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
        elif isinstance(value, str) and draw(st.booleans()):
            data[name] = draw(st.text(max_size=20))
    return Written(draw(st.integers(0, 10**10)), json.dumps(message).encode())


@calm
@given(st.lists(written(), max_size=60))
def test_no_event_makes_a_rule_fail(events: list[Written]) -> None:
    engine, at_ms = Engine(bind(EAGER), learns=True), 0
    for sequence, event in enumerate(events, 1):
        at_ms += event.after_ms
        try:
            told = engine.read(sequence, at_ms, event.raw)
        except Invalid:
            continue
        if told is not None:
            for decision in engine.feed(told):
                assert not decision.finding.key.startswith("fault/"), decision.finding.text
                assert decision.finding.evidence
                assert decision.at_ms <= at_ms


@pytest.mark.parametrize("name", RULES)
def test_what_is_kept_of_a_sandbox_does_not_grow_without_end(name: str) -> None:
    watch = Watch(RuleSet(bind(EAGER, [name])), learns=True)
    sizes = []
    for each in range(4):
        for number in range(each * 300, (each + 1) * 300):
            _feed_everything(watch, number)
        sizes.append(len(msgspec.json.encode(watch.kept)))
    assert max(sizes) < KEPT_BYTES
    assert sizes[-1] <= sizes[1] * 1.1


def _feed_everything(watch: Watch, number: int) -> None:
    """Always another run, call, exec and approval, none of which ever ends."""
    run, long = f"run-{number}", f"{number}" + "n" * 2000
    story = Story().begin().run(run).run(long).call("Bash", long, run=run, command=long, ok=False)
    story.use(long, run=long, file_path=f"/elsewhere/{number}/x").command("make", exec_id=f"x-{number}")
    story.changed(f"/elsewhere/{number}").spent(1.0, run=run).ran("false", code=1)
    for event in story.events:
        watch.feed(Seen(number, number * 60_000, event.type, event.data))


def test_sandboxes_that_are_gone_are_forgotten() -> None:
    engine = Engine(bind(Guardian()), learns=True)
    raw = golden("events", "sandbox.removed")
    begun = golden("events", "agent.started")
    for sequence, each in enumerate((begun, raw), 1):
        told = engine.read(sequence, 0, each)
        assert told is not None
        engine.feed(told)
    assert engine.due(10**15) == []
    assert engine.place("sb-1").node is None


def test_what_comes_after_the_removal_of_a_sandbox_does_not_bring_it_back_but_its_id_may_be_used_again() -> None:
    engine = Engine(bind(EAGER), learns=True)
    _feed(engine, Story().begin().run().tell(SandboxRemoved(reason="asked")))
    _feed(engine, Story().ended().changed("/elsewhere/x"))
    assert not engine.knows("sb-1")
    _feed(engine, Story().begin().run())
    assert engine.knows("sb-1")
    assert engine.place("sb-1").node == "local"


def _feed(engine: Engine, story: Story) -> None:
    for line in story.lines():
        entry = msgspec.json.decode(line, type=Line)
        told = engine.read(entry.sequence, None, bytes(entry.event))
        assert told is not None
        assert engine.feed(told) is not None


def test_moments_before_the_span_are_passed_over() -> None:
    silence = NoProgress(after_s=60)
    bound = bind(Guardian(no_progress=silence), ["no_progress"])
    story = Story().begin().run()
    begun_ms = milliseconds(story.events[-1].time)
    history = History(bound, since=100, since_ms=begun_ms + 90_000)
    for line in story.lines():
        entry = msgspec.json.decode(line, type=Line)
        assert list(history.feed(entry.sequence, None, bytes(entry.event))) == []
    found = list(history.end(begun_ms + 200_000))
    assert [each.decision.at_ms - begun_ms for each in found] == [120_000]


def test_there_is_a_limit_to_sandboxes_that_are_never_removed() -> None:
    engine = Engine(bind(EAGER, ["no_progress"]), learns=True)
    told = engine.read(1, 0, golden("events", "agent.started"))
    assert told is not None
    for number in range(MAX_SANDBOXES + 5):
        engine.feed(told._replace(sandbox=f"sb-{number}"))
    waiting = engine.due(10**15)
    assert len(waiting) == MAX_SANDBOXES
    assert "sb-0" not in waiting


class _Broken(Exception):
    pass


def _fails(_settings: Policy, _state: int, event: Seen) -> Outcome:
    if event.tag == "agent.tool_use":
        raise _Broken("on purpose")
    return Outcome(1)


def test_a_rule_that_fails_is_told_and_the_others_go_on() -> None:
    broken = Rule(
        name="broken",
        about="",
        reads=frozenset({"agent.started", "agent.tool_use"}),
        settings=Policy,
        begin=lambda: 0,
        step=_fails,
    )
    watch = Watch(RuleSet([Bound(broken, Policy()), *bind(Guardian(), ["dangerous_command"])]), learns=True)
    story = Story().begin().run().use("Bash", command="rm -rf /")
    found = [each.finding for number, event in enumerate(story.events) for each in _fed(watch, number, event)]
    assert [(each.rule, each.key.partition("/")[0]) for each in found] == [
        ("broken", "fault"),
        ("dangerous_command", "run-1"),
    ]
    assert "on purpose" in found[0].text
    assert watch.kept.states[0] == 0


def _fed(watch: Watch, number: int, event: Any) -> Any:
    return watch.feed(Seen(number, number, event.type, event.data))


def test_an_event_that_cannot_be_read_stands_in_the_way_of_nothing() -> None:
    engine = Engine(bind(Guardian()), learns=True)
    with pytest.raises(Invalid):
        engine.read(1, 0, b'{"type":"agent.tool_use"}')
    with pytest.raises(Invalid):
        engine.read(1, 0, b"[" * 100_000)
    assert engine.read(1, 0, golden("events", "network.allowed")) is None


def test_every_rule_has_settings_of_its_own_and_can_be_turned_off() -> None:
    assert list(RULES) == [name for name in Guardian.__struct_fields__ if name != "mode"]
    for name, rule in RULES.items():
        assert isinstance(getattr(Guardian(), name), rule.settings)
        off = msgspec.convert({name: {"enabled": False}}, Guardian)
        assert [each.rule.name for each in bind(off)] == [other for other in RULES if other != name]


def test_a_rule_that_there_is_not_is_refused_by_its_name() -> None:
    with pytest.raises(Invalid, match="there is no rule 'greed': one of repeated_call"):
        bind(Guardian(), ["greed"])


def test_nothing_that_is_bulk_is_read_and_everything_that_is_wanted_is() -> None:
    wanted = Engine(bind(Guardian()), learns=True).wanted
    assert not wanted & {"command.output", "command.input", "network.allowed"}
    for tag in wanted:
        family, _, kind = tag.partition(".")
        scoped = family == "command"
        subject = subjects.event("sb", tag, "x-1" if scoped else None)
        assert any(_covers(each, subject) for each in filters(wanted)), tag
        assert kind


def _covers(filter_: str, subject: str) -> bool:
    parts, words = filter_.split("."), subject.split(".")
    if parts[-1] == ">":
        return len(words) >= len(parts) and _alike(parts[:-1], words)
    return len(parts) == len(words) and _alike(parts, words)


def _alike(parts: list[str], words: list[str]) -> bool:
    return all(part in ("*", word) for part, word in zip(parts, words, strict=False))


def test_only_the_rules_that_are_asked_for_are_run() -> None:
    story = Story().begin().run().use("Bash", command="rm -rf /").use("Write", file_path="/etc/x")
    assert rules_of(judge(story, None, "outside_paths")) == ["outside_paths"]
    assert sorted(rules_of(judge(story))) == ["dangerous_command", "outside_paths"]
