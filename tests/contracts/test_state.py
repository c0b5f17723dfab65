import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec, registry
from contracts.errors import Failure, Invalid
from contracts.events import agent, command, health, sandbox, tool
from contracts.message import Fact
from contracts.state import RECENT_COMMANDS, CommandState, SandboxState, Sequenced, Status, apply, fold
from tests.contracts.histories import (
    CREATED,
    CREATING,
    STARTED,
    begun,
    completed,
    numbered,
    output,
    raw_head,
    time_of,
    typed,
)
from tests.contracts.properties import calm
from tests.contracts.samples import EVENT_SAMPLES

FAILURE = Failure(code="SANDBOX_START_FAILED", message="no room")
UP: tuple[Fact, ...] = (CREATING, CREATED, STARTED)
TOTALS = command.Totals(stdout=4)
SIGNALLED = command.Exit(signal=9)


def after(*facts: Fact) -> SandboxState:
    state = fold(numbered(facts))
    assert state is not None
    return state


def test_creating_is_the_beginning() -> None:
    state = after(CREATING)
    assert (state.sandbox, state.status, state.node, state.isolation) == ("sb", Status.CREATING, "n1", "local")
    assert (state.first_sequence, state.lifecycle_sequence, state.applied_sequence) == (1, 1, 1)
    assert state.created_at == state.last_event_at == time_of(1)
    assert (state.workspace, state.instance, state.health) == ("/workspace", None, "unknown")
    assert (state.requested_by, state.created) == ("asked-1", False)


def test_created_tells_where_it_lives() -> None:
    state = after(CREATING, CREATED)
    assert (state.status, state.created, state.workspace) == (Status.CREATING, True, "/w")
    assert (state.container, state.enforcement) == ("c1", {"pids": "cgroup"})


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ((), Status.RUNNING),
        ((sandbox.SandboxPaused(),), Status.PAUSED),
        ((sandbox.SandboxPaused(), sandbox.SandboxResumed()), Status.RUNNING),
        ((sandbox.SandboxStopped(reason="asked"),), Status.STOPPED),
        ((sandbox.SandboxStopped(reason="asked"), sandbox.SandboxStarted(instance="life-2")), Status.RUNNING),
        ((sandbox.SandboxStopped(reason="asked"), sandbox.SandboxRemoved(reason="asked")), Status.REMOVED),
        ((sandbox.SandboxFailed(failure=FAILURE),), Status.FAILED),
        ((sandbox.SandboxSnapshotted(manifest="m", files=1, size=1),), Status.RUNNING),
        ((sandbox.SandboxRecovering(attempt=1, reason="died", node="n2"),), Status.CREATING),
        (
            (
                sandbox.SandboxRecovering(attempt=1, reason="died", node="n2"),
                sandbox.SandboxRecovered(attempt=1, node="n2", instance="life-2"),
            ),
            Status.RUNNING,
        ),
    ],
)
def test_each_path_of_life_ends_in_its_status(facts: tuple[Fact, ...], status: Status) -> None:
    state = after(*UP, *facts)
    assert state.status == status
    assert state.lifecycle_sequence == state.applied_sequence == 3 + len(facts)


def test_a_start_tells_one_life_from_the_next_and_forgets_the_last_error() -> None:
    first = after(*UP)
    assert (first.instance, first.started_at, first.completed_at) == ("life-1", time_of(3), None)
    stopped = after(*UP, sandbox.SandboxStopped(reason="oom", failure=FAILURE))
    assert (stopped.completed_at, stopped.error) == (time_of(4), FAILURE)
    again = after(*UP, sandbox.SandboxStopped(reason="oom", failure=FAILURE), sandbox.SandboxStarted(instance="life-2"))
    assert (again.instance, again.completed_at, again.error) == ("life-2", None, None)


def test_removal_keeps_the_time_of_the_stop() -> None:
    removed = sandbox.SandboxRemoved(reason="asked")
    assert after(*UP, sandbox.SandboxStopped(reason="asked"), removed).completed_at == time_of(4)
    assert after(*UP, removed).completed_at == time_of(4)


def test_a_failure_is_kept() -> None:
    state = after(CREATING, sandbox.SandboxFailed(failure=FAILURE))
    assert (state.status, state.error, state.completed_at) == (Status.FAILED, FAILURE, time_of(2))


def test_recovery_moves_the_owner_and_counts_attempts() -> None:
    recovering = sandbox.SandboxRecovering(attempt=3, reason="died", node="n2")
    state = after(*UP, sandbox.SandboxFailed(failure=FAILURE), recovering)
    assert (state.node, state.retries, state.status) == ("n2", 3, Status.CREATING)
    recovered = sandbox.SandboxRecovered(attempt=3, node="n2", instance="life-9")
    back = after(*UP, sandbox.SandboxFailed(failure=FAILURE), recovering, recovered)
    assert (back.node, back.instance, back.error, back.completed_at) == ("n2", "life-9", None, None)


def test_a_running_command_counts_its_bytes_by_stream() -> None:
    state = after(
        *UP,
        begun(),
        typed(b"abc", 0),
        output(b"12345", 0),
        output(b"\xff\xfe", 0, command.Stream.STDERR),
        output(b"6", 5),
    )
    running = state.running["x"]
    assert running.totals == command.Totals(stdin=3, stdout=6, stderr=2)
    assert (running.argv, running.started_at, running.first_sequence) == (("cat",), time_of(4), 4)
    assert (running.outcome, state.commands, state.recent) == (None, 1, ())


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (
            command.CommandCompleted(exec="x", exit=command.Exit(code=3), duration_ms=2.5, totals=TOTALS),
            CommandState(
                exec="x",
                outcome="completed",
                exit=command.Exit(code=3),
                cause="exited",
                duration_ms=2.5,
                totals=TOTALS,
            ),
        ),
        (
            command.CommandTimedOut(exec="x", limit_ms=5, exit=SIGNALLED, duration_ms=6.0, totals=TOTALS),
            CommandState(
                exec="x", outcome="timed_out", exit=SIGNALLED, cause="time limit", duration_ms=6.0, totals=TOTALS
            ),
        ),
        (
            command.CommandCancelled(exec="x", exit=SIGNALLED, duration_ms=6.0, totals=TOTALS, cause="asked"),
            CommandState(exec="x", outcome="cancelled", exit=SIGNALLED, cause="asked", duration_ms=6.0, totals=TOTALS),
        ),
        (
            command.CommandLost(exec="x", cause="keeper died", detail="", totals=TOTALS),
            CommandState(exec="x", outcome="lost", cause="keeper died", totals=TOTALS),
        ),
    ],
)
def test_each_outcome_of_a_command_is_kept(end: Fact, expected: CommandState) -> None:
    state = after(*UP, begun(), end)
    started = msgspec.structs.replace(expected, argv=("cat",), started_at=time_of(4), first_sequence=4)
    assert (state.running, state.recent) == ({}, (started,))


def test_a_rejected_command_was_never_running() -> None:
    state = after(*UP, command.CommandRejected(exec="x", failure=FAILURE, cause="c"))
    assert state.recent == (CommandState(exec="x", first_sequence=4, outcome="rejected", cause="no room"),)
    assert (state.commands, state.running) == (0, {})


def test_output_after_the_end_brings_no_command_back() -> None:
    ended = after(*UP, begun(), completed())
    late = after(*UP, begun(), completed(), output(b"late", 0, after_exit=True))
    assert (late.running, late.recent) == ({}, ended.recent)
    assert late.applied_sequence == ended.applied_sequence + 1


def test_only_the_last_commands_are_kept_oldest_first() -> None:
    names = [f"x{number}" for number in range(RECENT_COMMANDS + 7)]
    state = after(*UP, *(fact for name in names for fact in (begun(name), completed(name))))
    assert [ended.exec for ended in state.recent] == names[-RECENT_COMMANDS:]
    assert state.commands == len(names)


def test_what_happens_around_it_is_counted() -> None:
    state = after(
        *UP,
        health.HealthUnhealthy(reason="silent"),
        agent.AgentMetrics(run="r", input_tokens=3, output_tokens=4, cost_usd=0.5),
        agent.AgentMetrics(run="r", input_tokens=1, cost_usd=0.25),
        agent.AgentToolUse(run="r", call="c", tool="t"),
        tool.ToolInvoked(call="c", tool="t"),
    )
    assert (state.health, state.tokens, state.cost_usd, state.tool_calls) == ("unhealthy", 8, 0.75, 2)
    assert state.lifecycle_sequence == 3
    assert after(*UP, health.HealthDied(cause=health.DeathCause.OOM, detail="")).health == "died"
    assert after(*UP, health.HealthUnhealthy(reason=""), health.HealthHealthy()).health == "healthy"


def test_the_health_of_a_life_goes_with_it() -> None:
    died = health.HealthDied(cause=health.DeathCause.OOM, detail="", instance="life-1")
    recovering = sandbox.SandboxRecovering(attempt=1, reason="died", node="n1")
    recovered = sandbox.SandboxRecovered(attempt=1, node="n1", instance="life-2")
    assert after(*UP, died).health == "died"
    back = after(*UP, died, recovering, recovered)
    assert (back.health, back.started_at) == ("unknown", time_of(6))
    assert after(*UP, recovering, recovered, died).health == "unknown", "told late, of a life that is over"
    assert after(*UP, health.HealthHealthy(), sandbox.SandboxStarted(instance="life-2")).health == "unknown"


def test_an_unknown_tag_moves_the_cursor_only() -> None:
    before = after(*UP)
    moved = apply(before, 9, raw_head(9, "garden.watered", b'{"litres":3}'))
    assert moved == msgspec.structs.replace(before, applied_sequence=9, last_event_at=time_of(9))


def test_an_unknown_step_of_life_still_guards_the_next_one() -> None:
    """The server counts it among the sandbox's lifecycle subjects, so the next append must expect it."""
    moved = apply(after(*UP), 9, raw_head(9, "sandbox.archived", b"{}"))
    assert moved is not None
    assert (moved.lifecycle_sequence, moved.status) == (9, Status.RUNNING)


def test_events_before_the_sandbox_existed_give_no_state() -> None:
    early = (begun(), output(b"a", 0), sandbox.SandboxStarted(instance="i"), sandbox.SandboxRemoved(reason=""))
    assert fold(numbered(early)) is None
    assert fold([]) is None
    state = after(*early, CREATING)
    assert (state.first_sequence, state.running, state.status) == (5, {}, Status.CREATING)


def test_data_that_cannot_be_read_is_invalid() -> None:
    with pytest.raises(Invalid):
        apply(after(*UP), 9, raw_head(9, "sandbox.stopped", b'{"reason":7}'))


def test_the_state_survives_the_wire() -> None:
    state = after(*UP, begun("y"), begun(), completed(), agent.AgentMetrics(run="r", cost_usd=0.5))
    assert codec.decode(codec.encode(state), SandboxState) == state


EXECS = st.sampled_from(["x", "y", "z"])
SAMPLES: list[Fact] = [event.data for tag, event in EVENT_SAMPLES.items() if tag in registry.EVENTS]
FACTS: st.SearchStrategy[Fact] = st.one_of(
    st.just(CREATING),
    st.sampled_from(SAMPLES),
    EXECS.map(begun),
    EXECS.map(completed),
    st.builds(lambda name, raw, at: output(raw, at, exec_id=name), EXECS, st.binary(max_size=9), st.integers(0, 50)),
    st.builds(lambda name, raw, at: typed(raw, at, name), EXECS, st.binary(max_size=9), st.integers(0, 50)),
)
UNKNOWN = st.sampled_from(["garden.watered", "sandbox.archived", "command.output2"])


@st.composite
def any_history(draw: st.DrawFn) -> list[Sequenced]:
    """Plausible or not: any facts in any order, with gaps in the numbers and tags from the future."""
    events: list[Sequenced] = []
    at = 0
    facts = draw(st.lists(FACTS | UNKNOWN, max_size=25))
    for fact in [*draw(st.sampled_from([(), UP])), *facts]:
        at += draw(st.integers(1, 3))
        if isinstance(fact, str):
            events.append(Sequenced(at, raw_head(at, fact, b"{}")))
        else:
            events += numbered([fact], at)
    return events


@calm
@given(any_history(), st.integers(0, 30))
def test_a_fold_may_stop_anywhere_and_go_on_later(events: list[Sequenced], cut: int) -> None:
    assert fold(events[cut:], fold(events[:cut])) == fold(events)


@calm
@given(any_history(), st.integers(0, 30), st.integers(0, 30))
def test_events_delivered_again_change_nothing(events: list[Sequenced], since: int, until: int) -> None:
    state = fold(events)
    again = events[since:until]
    if state is not None:
        assert fold(again, state) == state
    assert fold([twice for event in events for twice in (event, event)]) == state


@calm
@given(any_history())
def test_whatever_happened_the_state_is_bounded_and_the_cursors_are_right(events: list[Sequenced]) -> None:
    state = fold(events)
    if state is None:
        assert all(head.type != "sandbox.creating" for _, head in events)
        return
    created = [sequence for sequence, head in events if head.type == "sandbox.creating"]
    lifecycle = [sequence for sequence, head in events if head.type.startswith("sandbox.")]
    assert state.first_sequence == created[-1]
    assert state.lifecycle_sequence == lifecycle[-1]
    assert state.applied_sequence == events[-1].sequence
    assert len(state.recent) <= RECENT_COMMANDS
    assert all(running.outcome is None for running in state.running.values())
    assert all(ended.outcome is not None for ended in state.recent)
