"""Two runs compared, by what the log says of them. Pure."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.aligning import align
from contracts.comparing import Both, compare_specs, compare_steps, compare_trees
from contracts.events import agent, command, network
from contracts.events.file import EntryKind
from contracts.manifest import Entry
from contracts.spec import Network, SandboxSpec
from tests.compare.runs import Run, played

WORDS = st.sampled_from(["ls", "make", "cat a", "true", "git status", "x"])
SCRIPTS = st.lists(st.tuples(st.sampled_from(["command", "tool", "said"]), WORDS), min_size=1, max_size=30)


@settings(deadline=None, max_examples=50)
@given(SCRIPTS, st.integers(1, 1000), st.integers(1, 7))
def test_the_same_script_in_another_sandbox_at_another_time_is_the_same_run(
    script: list[tuple[str, str]], first: int, pace: int
) -> None:
    a, b = played("sandbox-a", script), played("sandbox-bbb", script, first=first, pace_s=pace)
    told = compare_steps(a.steps(), b.steps())
    assert told.divergence is None
    assert (told.same, told.only_a_count, told.only_b_count, told.differing_count) == (len(script), 0, 0, 0)


@settings(deadline=None, max_examples=50)
@given(SCRIPTS, st.data())
def test_one_changed_step_is_the_divergence(script: list[tuple[str, str]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(script) - 1))
    changed = [*script[:at], (script[at][0], "something else"), *script[at + 1 :]]
    a, b = played("sandbox-a", script), played("sandbox-bbb", changed, first=500)
    told = compare_steps(a.steps(), b.steps())
    divergence = told.divergence
    assert divergence is not None
    assert divergence.why == "other step"
    assert divergence.a == a.steps()[at]
    assert divergence.b == b.steps()[at]
    assert divergence.after == (None if at == 0 else Both(a=a.steps()[at - 1], b=b.steps()[at - 1]))
    assert told.only_a_count == told.only_b_count == 1


@settings(deadline=None, max_examples=50)
@given(SCRIPTS, st.data())
def test_a_run_that_goes_on_parts_where_the_other_ends(script: list[tuple[str, str]], data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(script) - 1))
    a, b = played("sandbox-a", script[:end]), played("sandbox-bbb", script)
    forth, back = compare_steps(a.steps(), b.steps()).divergence, compare_steps(b.steps(), a.steps()).divergence
    assert forth is not None
    assert back is not None
    assert (forth.why, forth.a, forth.b) == ("a ended", None, b.steps()[end])
    assert (back.why, back.a, back.b) == ("b ended", b.steps()[end], None)


def test_another_outcome_or_output_is_a_divergence_of_the_same_step() -> None:
    a, b, c = Run("a"), Run("b", first=100), Run("c")
    for run in (a, b, c):
        run.command("true")
    a.command("make", b"1 passed\n")
    at_b = b.command("make", b"1 failed\n", code=2)
    c.command("make", b"1 passed in 2 s\n")
    for run in (a, b, c):
        run.command("date")
    other = compare_steps(a.steps(), b.steps())
    assert other.divergence is not None
    assert other.divergence.why == "other outcome"
    assert other.divergence.b is not None
    assert other.divergence.b.sequence == at_b
    assert (other.divergence.b.what, other.divergence.b.outcome) == ("make", "exit 2")
    assert (other.same, other.differing_count, other.only_a_count) == (2, 1, 0)
    written = compare_steps(a.steps(), c.steps())
    assert written.divergence is not None
    assert written.divergence.why == "other output"
    assert compare_steps(a.steps(), c.steps(), outputs=False).divergence is None


def test_what_is_told_first_is_the_divergence_though_a_longer_step_began_before_it() -> None:
    def long(run: Run, last: str, code: int) -> None:
        run.tell(command.CommandStarted(exec="long", argv=("server",), cwd="/"))
        run.command("ls")
        run.command(last)
        ended = command.Exit(code=code)
        run.tell(command.CommandCompleted(exec="long", exit=ended, duration_ms=1, totals=command.Totals()))

    a, b = Run("a"), Run("b")
    long(a, "cat a", 0)
    long(b, "cat b", 1)
    divergence = compare_steps(a.steps(), b.steps()).divergence
    assert divergence is not None
    assert divergence.a is not None
    assert divergence.a.what == "cat a"
    same = Run("c")
    long(same, "cat a", 1)
    divergence = compare_steps(a.steps(), same.steps()).divergence
    assert divergence is not None
    assert divergence.a is not None
    assert (divergence.a.what, divergence.why) == ("server", "other outcome")


@settings(deadline=None, max_examples=50)
@given(st.text("xyz\0", max_size=60).map(str.encode), st.integers(1, 9))
def test_how_output_was_cut_and_the_sandboxs_own_name_in_it_do_not_count(data: bytes, pieces: int) -> None:
    a, b = Run("sandbox-a"), Run("sandbox-bbb")
    a.command("x", data.replace(b"\0", b"sandbox-a") + b"sandbox-a", pieces=pieces)
    b.command("x", data.replace(b"\0", b"sandbox-bbb") + b"sandbox-bbb")
    assert compare_steps(a.steps(), b.steps()).divergence is None


def test_the_process_of_an_agent_is_no_step_and_what_is_spent_is_counted() -> None:
    run = Run("a")
    run.tell(agent.AgentStarted(run="run", runtime="claude", prompt="Go"))
    run.tell(command.CommandStarted(exec="p", argv=("claude", "--session", "1"), cwd="/"))
    run.tell(agent.AgentAttached(run="run", process="p", attempt=1))
    run.command("ls", code=1)
    run.call("Bash", {"command": "ls"}, "a")
    run.tell(agent.AgentMetrics(run="run", input_tokens=5, output_tokens=2, cost_usd=0.5, turns=1))
    run.tell(network.NetworkDenied(host="x", port=80, method="GET", reason="no", count=3))
    run.tell(agent.AgentCompleted(run="run", reason="done"))
    counted = run.counted()
    assert [step.kind for step in counted.steps] == ["agent", "command", "tool", "agent"]
    spent = counted.spent
    assert (spent.commands, spent.failed_commands, spent.tool_calls) == (1, 1, 1)
    assert (spent.tokens, spent.cost_usd, spent.turns, spent.denied) == (7, 0.5, 1, 3)


def test_hostile_events_are_compared_like_any() -> None:
    run = Run("")
    run.tell(agent.AgentMessage(run="run", text="\x1b[31m" * 1000))
    run.command("x" * 100_000, b"\xff\0" * 100)
    steps = run.steps()
    assert len(steps[1].what) <= 300
    assert compare_steps(steps, steps).divergence is None


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=40), st.lists(st.integers(0, 5), max_size=40))
def test_an_alignment_has_every_index_once_and_keeps_the_order(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)
    assert [pair.a for pair in pairs if pair.a is not None] == list(range(len(a)))
    assert [pair.b for pair in pairs if pair.b is not None] == list(range(len(b)))
    assert all(a[at_a] == b[at_b] for at_a, at_b in pairs if at_a is not None and at_b is not None)
    if a == b:
        assert all(None not in pair for pair in pairs)


def test_long_runs_are_aligned_in_time_that_goes_with_their_length() -> None:
    chance = random.Random(8)
    a = [chance.randrange(20) for _ in range(100_000)]
    b = [each for each in a if chance.random() > 0.01]
    pairs = align(a, b)
    matched = sum(None not in pair for pair in pairs)
    assert matched > 0.9 * len(b)
    assert all(x.a is None or y.a is None or x.a < y.a for x, y in pairwise(pairs))


class Counted:
    """How often it was looked at, of all of its kind."""

    looks = 0

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        Counted.looks += 1
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self.value == other.value


def test_runs_made_to_take_long_are_aligned_in_time_that_goes_with_their_length_too() -> None:
    """Of each number one stands before and one after the next smaller one: in every stretch one is there once."""

    def run(own: str) -> list[Counted]:
        return [Counted(each) for number in range(2000, 0, -1) for each in (number, (own, number), number + 1)]

    Counted.looks = 0
    pairs = align(run("a"), run("b"))
    assert Counted.looks < 200 * len(pairs)
    assert [pair.a for pair in pairs if pair.a is not None] == list(range(6000))
    assert [pair.b for pair in pairs if pair.b is not None] == list(range(6000))


def test_trees_are_compared_by_what_is_in_them() -> None:
    def entry(path: str, sha256: str, **more: object) -> Entry:
        return Entry(path=path, kind=EntryKind.FILE, size=1, mode=0o644, sha256=sha256, **more)  # type: ignore[arg-type]

    a = {b"same": entry("same", "1", mtime_us=1), b"other": entry("other", "2"), b"gone": entry("gone", "3")}
    b = {b"same": entry("same", "1", mtime_us=2), b"other": entry("other", "4"), b"new": entry("new", "3")}
    told = compare_trees(a, b)
    assert (told.same, told.only_a, told.only_b, told.differing) == (1, ("gone",), ("new",), ("other",))
    assert compare_trees(a, a).are_same


def test_specifications_are_compared_by_field() -> None:
    a, b = SandboxSpec(task_id="one"), SandboxSpec(task_id="two", network=Network(allowed_hosts=("x",)))
    assert [each.path for each in compare_specs(a, b)] == ["network.allowed_hosts", "task_id"]
    assert compare_specs(a, a) == ()
