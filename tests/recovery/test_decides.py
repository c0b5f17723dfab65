"""Given what the log says, when a recovery is asked for, then it is begun, gone on with, given up or refused."""

import datetime

import msgspec
import pytest

from contracts.commands import sandbox as orders
from contracts.errors import Failure, SandboxInvalidState
from contracts.events import sandbox as facts
from contracts.message import Fact
from contracts.nodes import DRAINED, NodeRecord, Standing
from contracts.recovery import attempts_used, backoff_ms, is_recovering, is_restoring, may_pass
from contracts.spec import Isolation, Restart, SandboxSpec
from contracts.state import SandboxState, Sequenced, Status, apply, fold
from services.spawner.decide import Decision, Step, decide
from tests.contracts.histories import CREATED, STARTED, numbered, time_of

SPEC = SandboxSpec(restart=Restart(max_attempts=2, backoff_ms=100))
UP = (facts.SandboxCreating(spec=SPEC, isolation=Isolation.LOCAL, node="n1"), CREATED, STARTED)
FAILED = facts.SandboxFailed(failure=Failure(code="SANDBOX_DIED", message="it died"))
DEATH = orders.RecoverSandbox(reason="it died", instance="life-1")
PERSON = orders.RecoverSandbox()


def recovering(attempt: int, node: str = "n1", sequence: int | None = None) -> facts.SandboxRecovering:
    return facts.SandboxRecovering(attempt=attempt, reason="it died", node=node, sequence=sequence)


def recovered(attempt: int, node: str = "n1", life: str = "life-2") -> facts.SandboxRecovered:
    return facts.SandboxRecovered(attempt=attempt, node=node, instance=life)


def given(*history: Fact) -> SandboxState:
    state = fold(numbered([*UP, *history]))
    assert state is not None
    return state


def when(
    state: SandboxState,
    order: orders.RecoverSandbox | orders.StopSandbox,
    *,
    node: str = "n1",
    command: str = "c",
    now: datetime.datetime | None = None,
    owner: NodeRecord | None = None,
) -> Decision:
    return decide(state, order, sandbox="sb", command=command, node=node, now=now or time_of(100), owner=owner)


def test_a_death_is_recovered_and_the_same_death_only_once() -> None:
    assert when(given(), DEATH).step == Step.RECOVER
    assert when(given(facts.SandboxPaused()), DEATH).step == Step.RECOVER
    for later in ([recovering(1)], [recovering(1), recovered(1)], [recovering(1, "n2")], [FAILED]):
        assert when(given(*later), DEATH) == (Step.NOTHING, None)


def test_a_death_that_is_told_after_somebody_stopped_or_removed_it_changes_nothing() -> None:
    for later in (facts.SandboxStopped(reason="asked"), facts.SandboxRemoved(reason="asked")):
        assert when(given(later), DEATH) == (Step.NOTHING, None)


def test_the_order_that_began_a_recovery_goes_on_with_it_on_its_own_node_only() -> None:
    begun = given(recovering(1))
    assert when(begun, DEATH, command="asked-1").step == Step.FINISH_RECOVERING
    assert when(begun, PERSON, command="asked-1").step == Step.FINISH_RECOVERING
    assert when(begun, DEATH, command="asked-1", node="n2").step == Step.NOTHING
    assert when(given(recovering(1), recovered(1)), PERSON, command="asked-1").step == Step.NOTHING
    assert when(given(recovering(0), FAILED), PERSON, command="asked-1").step == Step.NOTHING


def test_an_order_that_comes_again_long_after_it_was_obeyed_changes_nothing() -> None:
    first = numbered([*UP, recovering(0), recovered(0)])
    state = given()
    for sequence, head in first[3:]:
        state = apply(state, sequence, msgspec.structs.replace(head, correlationid="person-1")) or state
    for sequence, head in numbered([recovering(0), recovered(0, life="life-3")], 6):
        state = apply(state, sequence, msgspec.structs.replace(head, correlationid="person-2")) or state
    for command in ("person-1", "person-2"):
        assert when(state, PERSON, command=command) == (Step.NOTHING, None)
    assert when(state, PERSON, command="person-3").step == Step.RECOVER
    assert when(state, orders.StopSandbox(), command="person-1").step == Step.NOTHING


def test_after_the_last_attempt_it_is_given_up() -> None:
    twice = given(recovering(1), recovered(1), recovering(2), recovered(2, life="life-3"))
    assert when(twice, orders.RecoverSandbox(instance="life-3")).step == Step.GIVE_UP


def test_attempts_are_counted_anew_after_ten_minutes_of_life() -> None:
    twice = given(recovering(1), recovered(1), recovering(2), recovered(2, life="life-3"))
    assert twice.started_at is not None
    long_after = twice.started_at + datetime.timedelta(minutes=10)
    assert attempts_used(twice, long_after - datetime.timedelta(seconds=1)) == 2
    assert attempts_used(twice, long_after) == 0
    assert when(twice, orders.RecoverSandbox(instance="life-3"), now=long_after).step == Step.RECOVER


def test_attempts_are_counted_anew_after_a_person_had_a_hand_in_it() -> None:
    stopped = (recovering(2), recovered(2), facts.SandboxStopped(reason="asked"))
    assert given(*stopped, facts.SandboxStarted(instance="life-3")).retries == 0
    assert given(*stopped, recovering(0), recovered(0, life="life-3")).retries == 0


def test_each_wait_is_longer_than_the_one_before_and_none_longer_than_a_minute() -> None:
    assert [backoff_ms(given(), used) for used in (0, 1, 2, 3, 10, 99)] == [0, 100, 200, 400, 51_200, 60_000]


@pytest.mark.parametrize(
    ("minutes", "retryable", "engine_lost", "waits"),
    [
        (0.9, True, False, True),
        (0.9, False, False, False),
        (0.9, False, True, True),
        (1, True, False, False),
        (1, False, True, False),
        (59, True, True, True),
        (60, True, True, False),
    ],
)
def test_an_engine_that_comes_back_costs_no_attempts(
    minutes: float, retryable: bool, engine_lost: bool, waits: bool
) -> None:
    waited = datetime.timedelta(minutes=minutes)
    assert may_pass(waited, retryable=retryable, engine_lost=engine_lost) == waits


@pytest.mark.parametrize(
    "history",
    [
        (),
        (facts.SandboxPaused(),),
        (facts.SandboxStopped(reason="asked"),),
        (FAILED,),
        (recovering(1),),
        (recovering(2), recovered(2)),
    ],
)
def test_a_person_may_recover_whatever_was_once_whole_here_or_elsewhere(history: tuple[Fact, ...]) -> None:
    for node in ("n1", "n2"):
        assert when(given(*history), PERSON, node=node) == (Step.RECOVER, None)


@pytest.mark.parametrize(
    ("history", "code"),
    [
        ([UP[0]], "CONFLICT"),
        ([UP[0], FAILED], "SANDBOX_INVALID_STATE"),
        ([*UP, facts.SandboxRemoved(reason="asked")], "SANDBOX_INVALID_STATE"),
    ],
)
def test_what_was_never_whole_or_is_gone_cannot_be_recovered(history: list[Fact], code: str) -> None:
    state = fold(numbered(history))
    assert state is not None
    refusal = when(state, PERSON).refusal
    assert refusal is not None
    assert refusal.code == code


def test_a_stop_meant_for_a_life_that_is_over_does_not_stop_the_next() -> None:
    stop = orders.StopSandbox(instance="life-1", failure=Failure(code="SANDBOX_TIMEOUT", message="too long"))
    assert when(given(), stop).step == Step.STOP
    assert when(given(recovering(1)), stop).step == Step.NOTHING
    assert when(given(recovering(1), recovered(1)), stop).step == Step.NOTHING


def test_a_recovery_that_goes_on_and_on_can_be_stopped() -> None:
    assert when(given(recovering(1)), orders.StopSandbox()).step == Step.STOP


def test_a_recovery_elsewhere_tells_whose_it_was() -> None:
    moved = given(recovering(0, "n2"), recovered(0, "n2"), recovering(0, "n3"))
    assert (moved.node, moved.former_nodes) == ("n3", ("n1", "n2"))
    back = given(recovering(0, "n2"), recovered(0, "n2"), recovering(0, "n1"))
    assert (back.node, back.former_nodes) == ("n1", ("n2",))


def test_only_a_workspace_that_is_made_anew_is_half_made_meanwhile() -> None:
    assert (is_recovering(given()), is_restoring(given())) == (False, False)
    kept, anew = given(recovering(1)), given(recovering(1, sequence=7))
    assert (is_recovering(kept), is_restoring(kept)) == (True, False)
    assert (is_recovering(anew), is_restoring(anew)) == (True, True)
    assert not is_restoring(given(recovering(1, sequence=7), recovered(1)))


def test_the_state_of_an_older_program_is_still_read() -> None:
    old = msgspec.to_builtins(given())
    for field in ("recovery", "former_nodes"):
        del old[field]
    state = msgspec.convert(old, SandboxState)
    (sequence, head) = numbered([recovering(1)], 9)[0]
    after = apply(state, *Sequenced(sequence, head))
    assert after is not None
    assert (after.status, after.retries) == (Status.CREATING, 1)


def test_a_recovery_that_a_drain_has_ordered_is_void_once_the_sandbox_has_moved_on() -> None:
    frozen = given(facts.SandboxPaused(by="drain"))
    order = orders.RecoverSandbox(reason=DRAINED, lifecycle_sequence=frozen.lifecycle_sequence)
    assert when(frozen, order, node="n2").step == Step.RECOVER
    thawed = (facts.SandboxPaused(by="drain"), facts.SandboxResumed(by="drain"))
    for later in (thawed, (*thawed, facts.SandboxPaused()), (*thawed, facts.SandboxStopped(reason="asked"))):
        for node in ("n1", "n2"):
            decided = when(given(*later), order, node=node)
            assert decided.step == Step.NOTHING
            assert isinstance(decided.refusal, SandboxInvalidState)
            assert "moved on" in decided.refusal.message


def test_a_drain_moves_nothing_to_where_it_is() -> None:
    frozen = given(facts.SandboxPaused(by="drain"))
    order = orders.RecoverSandbox(reason=DRAINED, lifecycle_sequence=frozen.lifecycle_sequence)
    decided = when(frozen, order, node="n1")
    assert (decided.step, type(decided.refusal)) == (Step.NOTHING, SandboxInvalidState)


def test_an_order_for_a_lost_node_is_void_once_the_node_is_back_or_lost_anew() -> None:
    halfway = given(recovering(1))
    for state, order in (
        (given(), orders.RecoverSandbox(instance="life-1", lost_sequence=20)),
        (halfway, orders.RecoverSandbox(lifecycle_sequence=halfway.lifecycle_sequence, lost_sequence=20)),
    ):
        for node in ("n1", "n2"):
            for standing, since, step in (
                (Standing.LOST, 20, Step.RECOVER),
                (Standing.LOST, 22, Step.NOTHING),
                (Standing.JOINED, 21, Step.NOTHING),
            ):
                owner = NodeRecord(node="n1", standing=standing, sequence=since, since=since)
                assert when(state, order, node=node, owner=owner) == (step, None)
            assert when(state, order, node=node) == (Step.NOTHING, None)


def test_an_order_for_one_attempt_of_a_lost_node_does_not_end_what_a_later_one_has_begun() -> None:
    halfway = given(recovering(1))
    order = orders.RecoverSandbox(reason="node n1 is lost", lifecycle_sequence=halfway.lifecycle_sequence)
    assert when(halfway, order, node="n2").step == Step.RECOVER
    for later in ([recovering(1), recovering(0, "n3")], [recovering(1), recovered(1)], [recovering(1), FAILED]):
        assert isinstance(when(given(*later), order, node="n2").refusal, SandboxInvalidState)


def test_an_order_that_was_begun_is_finished_though_it_has_moved_the_sandbox_itself() -> None:
    order = orders.RecoverSandbox(reason=DRAINED, lifecycle_sequence=3)
    assert when(given(recovering(0, "n2")), order, node="n2", command="asked-1").step == Step.FINISH_RECOVERING
