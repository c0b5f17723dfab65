"""An agent's run in brief, as far as its events tell."""

import datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec, runs
from contracts.errors import Failure
from contracts.events import agent
from contracts.message import Event, EventHead, Fact
from contracts.registry import EVENTS, tag_of
from contracts.runs import BRIEF, KEPT_EACH, KEPT_RUNS, RunState, RunStatus
from contracts.state import SandboxState, fold
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered
from tests.contracts.properties import calm
from tests.contracts.samples import EVENT_SAMPLES

START = datetime.datetime(2026, 5, 1, 9, 0, tzinfo=datetime.UTC)
BEGUN = agent.AgentStarted(run="r", runtime="script", prompt="grow", model="m-1", keep_open=True)
FAILURE = Failure(code="AGENT_FAILED", message="it fell silent")


def head_of(fact: Fact, number: int, order: str) -> EventHead:
    event = Event(
        id=f"e-{number}",
        source="agent/n1",
        type=tag_of(fact),
        time=START + datetime.timedelta(seconds=number),
        sandboxid="sb",
        correlationid=order,
        data=fact,
    )
    return codec.decode_head(codec.encode(event))


def after(*facts: Fact) -> tuple[RunState, ...]:
    """Each asked for by the order `c-<its number>`."""
    known: tuple[RunState, ...] = ()
    for number, fact in enumerate(facts):
        known = runs.apply_all(known, number + 1, head_of(fact, number, f"c-{number}"), fact)
    return known


def one(*facts: Fact) -> RunState:
    (state,) = after(BEGUN, *facts)
    return state


def said(text: str) -> agent.UserMessage:
    return agent.UserMessage(run="r", text=text, by="user")


def asked(approval: str) -> agent.AgentApprovalRequested:
    return agent.AgentApprovalRequested(run="r", approval=approval, tool="Bash", input={"command": "make"})


def delivered(order: str) -> agent.AgentDelivered:
    return agent.AgentDelivered(run="r", order=order, kind="message", sequence=1, where="prompt")


def test_a_run_begins_as_it_was_asked_for() -> None:
    state = one()
    assert (state.run, state.runtime, state.status, state.prompt) == ("r", "script", RunStatus.RUNNING, "grow")
    assert (state.model, state.keep_open, state.started_at, state.first_sequence) == ("m-1", True, START, 1)


WAITING = agent.AgentWaiting(run="r", reason="turn over")
PAUSED = agent.AgentPaused(run="r", reason="lunch")
RESUMED = agent.AgentResumed(run="r")


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ((WAITING,), RunStatus.WAITING, "turn over"),
        ((WAITING, delivered("c-9")), RunStatus.RUNNING, ""),
        ((PAUSED,), RunStatus.PAUSED, "lunch"),
        ((PAUSED, RESUMED), RunStatus.RUNNING, ""),
        ((WAITING, PAUSED, RESUMED), RunStatus.WAITING, ""),
        ((PAUSED, WAITING), RunStatus.PAUSED, "turn over"),
        ((agent.AgentError(run="r", failure=FAILURE, final=False),), RunStatus.RUNNING, ""),
        ((agent.AgentError(run="r", failure=FAILURE),), RunStatus.FAILED, "it fell silent"),
        ((agent.AgentCompleted(run="r", reason="stopped: asked"),), RunStatus.COMPLETED, "stopped: asked"),
        ((agent.AgentCompleted(run="r", reason="done"), WAITING), RunStatus.COMPLETED, "done"),
    ],
)
def test_each_way_of_a_run_ends_in_its_status(facts: tuple[Fact, ...], status: RunStatus, reason: str) -> None:
    state = one(*facts)
    assert (state.status, state.reason) == (status, reason)
    assert (state.ended_at is None) == state.is_open


def test_what_was_spent_is_the_sum_of_all_turns_and_tool_calls_are_counted_as_they_come() -> None:
    spent = agent.AgentMetrics(run="r", input_tokens=7, output_tokens=3, cost_usd=0.5, turns=1, duration_ms=20)
    state = one(spent, agent.AgentToolUse(run="r", call="1", tool="Bash"), spent)
    assert (state.tokens, state.cost_usd, state.turns, state.duration_ms, state.tool_calls) == (20, 1.0, 2, 40, 1)


def test_what_is_said_is_queued_until_it_is_delivered() -> None:
    state = one(said("one"), said("two"), agent.UserGuidance(run="r", text="three"))
    assert [(each.order, each.kind, each.text) for each in state.queued] == [
        ("c-1", "message", "one"),
        ("c-2", "message", "two"),
        ("c-3", "guidance", "three"),
    ]
    (left,) = one(said("one"), said("two"), delivered("c-1")).queued
    assert (left.order, left.text, left.by) == ("c-2", "two", "user")


def test_an_interrupt_is_queued_only_where_its_reason_is_told_to_the_agent() -> None:
    asked_by = [agent.UserInterrupt(run="r", reason="stop it", by=by) for by in ("user", "guardian/local")]
    assert [each.by for each in one(*asked_by).queued] == ["guardian/local"]


def test_an_approval_is_pending_until_its_answer_has_taken_effect() -> None:
    state = one(asked("ap-1"), asked("ap-2"))
    assert [(each.approval, each.tool, each.subject) for each in state.pending] == [
        ("ap-1", "Bash", "make"),
        ("ap-2", "Bash", "make"),
    ]
    answered = one(asked("ap-1"), asked("ap-2"), agent.UserApprove(run="r", approval="ap-1"))
    assert [each.answered for each in answered.pending] == [True, False]
    left = one(asked("ap-1"), asked("ap-2"), agent.AgentApproved(run="r", approval="ap-1", by="user"))
    assert [each.approval for each in left.pending] == ["ap-2"]
    given_up = agent.AgentRejected(run="r", approval="ap-1", by="policy", reason="interrupted")
    assert [each.approval for each in one(asked("ap-1"), asked("ap-2"), given_up).pending] == ["ap-2"]


@pytest.mark.parametrize(
    "end", [agent.AgentCompleted(run="r", reason="stopped: asked"), agent.AgentInterrupted(run="r", reason="asked")]
)
def test_nothing_is_pending_in_a_run_that_is_over_or_was_interrupted(end: Fact) -> None:
    assert one(asked("ap-1"), end).pending == ()


def test_more_than_is_kept_is_counted_and_comes_out_even() -> None:
    many = KEPT_EACH + 5
    messages, questions = [said(str(number)) for number in range(many)], [asked(str(number)) for number in range(many)]
    state = one(*messages, *questions)
    assert (len(state.queued), state.queued_more, len(state.pending), state.pending_more) == (KEPT_EACH, 5) * 2
    heard = [delivered(f"c-{number + 1}") for number in range(many)]
    denied = agent.AgentRejected(run="r", approval="unasked", by="policy", tool="Bash")
    answers = [agent.AgentApproved(run="r", approval=str(number), by="user") for number in range(many)]
    state = one(*messages, *questions, *heard, denied, *answers[:-1])
    assert (state.queued, state.queued_more, state.pending, state.pending_more) == ((), 0, (), 1)
    assert one(*messages, *questions, *heard, denied, *answers).pending_more == 0


def test_the_last_runs_are_kept_the_newest_at_the_end() -> None:
    names = [f"r-{number}" for number in range(KEPT_RUNS + 3)]
    started = [agent.AgentStarted(run=name, runtime="script", prompt="grow") for name in names]
    assert [state.run for state in after(*started)] == names[3:]


def test_a_sandboxes_state_has_its_runs_and_stays_small_whatever_agents_say() -> None:
    facts: list[Fact] = [CREATING, CREATED, STARTED]
    for number in range(KEPT_RUNS + 1):
        run, long = f"r-{number}", "x" * 100_000
        facts.append(agent.AgentStarted(run=run, runtime="script", prompt=long, options={"script": long}))
        for each in range(50):
            facts.append(agent.UserMessage(run=run, text=long))
            facts.append(
                agent.AgentApprovalRequested(
                    run=run, approval=f"a{each}", tool=long, input={"command": long}, reason=long
                )
            )
        facts.append(agent.AgentWaiting(run=run, reason=long))
    state = fold(numbered(facts))
    assert state is not None
    assert [each.status for each in state.runs] == [RunStatus.WAITING] * KEPT_RUNS
    assert len(msgspec.json.encode(state)) < 100_000
    assert all(len(each.prompt) == BRIEF for each in state.runs)


def test_a_state_that_was_stored_before_there_were_runs_can_be_read() -> None:
    state = fold(numbered([CREATING, CREATED, STARTED]))
    stored = msgspec.json.decode(msgspec.json.encode(state))
    del stored["runs"]
    assert codec.decode(msgspec.json.encode(stored), SandboxState) == state


OF_RUNS = [EVENT_SAMPLES[tag].data for tag in EVENTS if tag.startswith(("agent.", "user."))]


@calm
@given(st.lists(st.sampled_from(OF_RUNS), max_size=60))
def test_whatever_comes_a_run_has_one_status_and_counts_nothing_below_zero(facts: list[Fact]) -> None:
    for state in after(*facts):
        assert state.is_open == (state.ended_at is None)
        assert (state.status == RunStatus.PAUSED) == state.paused
        assert min(state.queued_more, state.pending_more) >= 0
        assert len(state.queued) <= KEPT_EACH
        assert codec.decode(codec.encode(state), RunState) == state
