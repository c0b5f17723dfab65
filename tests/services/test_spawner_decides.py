"""Given what the log says, when an order comes, then a step or a refusal."""

import pytest

from contracts.commands import sandbox as orders
from contracts.events import sandbox as facts
from contracts.message import Fact, Order
from contracts.state import SandboxState, fold
from services.spawner.decide import Step, decide
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered, time_of

NOW = time_of(100)
STOPPED = facts.SandboxStopped(reason="asked")
HISTORIES: dict[str, list[Fact]] = {
    "creating": [CREATING],
    "running": [CREATING, CREATED, STARTED],
    "paused": [CREATING, CREATED, STARTED, facts.SandboxPaused()],
    "stopped": [CREATING, CREATED, STARTED, STOPPED],
    "removed": [CREATING, CREATED, STARTED, facts.SandboxRemoved(reason="asked")],
}
ORDERS: dict[str, Order] = {
    "start": orders.StartSandbox(),
    "stop": orders.StopSandbox(),
    "pause": orders.PauseSandbox(),
    "resume": orders.ResumeSandbox(),
    "remove": orders.RemoveSandbox(),
    "snapshot": orders.SnapshotSandbox(),
}


def given(status: str) -> SandboxState | None:
    return fold(numbered(HISTORIES[status])) if status != "nothing" else None


@pytest.mark.parametrize(
    ("status", "order", "then"),
    [
        ("running", "start", Step.NOTHING),
        ("running", "stop", Step.STOP),
        ("running", "pause", Step.PAUSE),
        ("running", "resume", Step.THAW),
        ("running", "remove", Step.REMOVE),
        ("running", "snapshot", Step.SNAPSHOT),
        ("paused", "snapshot", Step.SNAPSHOT),
        ("stopped", "snapshot", Step.SNAPSHOT),
        ("removed", "snapshot", "SANDBOX_INVALID_STATE"),
        ("creating", "snapshot", "CONFLICT"),
        ("paused", "start", "SANDBOX_INVALID_STATE"),
        ("paused", "stop", Step.STOP),
        ("paused", "pause", Step.NOTHING),
        ("paused", "resume", Step.RESUME),
        ("paused", "remove", Step.REMOVE),
        ("stopped", "start", Step.START),
        ("stopped", "stop", Step.NOTHING),
        ("stopped", "pause", "SANDBOX_INVALID_STATE"),
        ("stopped", "resume", "SANDBOX_INVALID_STATE"),
        ("stopped", "remove", Step.REMOVE),
        ("removed", "start", "SANDBOX_INVALID_STATE"),
        ("removed", "stop", "SANDBOX_INVALID_STATE"),
        ("removed", "remove", Step.NOTHING),
        ("creating", "stop", "CONFLICT"),
        ("creating", "remove", Step.REMOVE),
        ("nothing", "stop", "SANDBOX_NOT_FOUND"),
        ("nothing", "remove", "SANDBOX_NOT_FOUND"),
    ],
)
def test_each_order_in_each_state_has_one_answer(status: str, order: str, then: Step | str) -> None:
    decision = decide(given(status), ORDERS[order], sandbox="sb", command="c-1", node="n1", now=NOW)
    assert (decision.refusal.code if decision.refusal else decision.step) == then


def test_a_new_sandbox_is_created() -> None:
    assert decide(None, orders.CreateSandbox(), sandbox="sb", command="c", node="n1", now=NOW).step == Step.CREATE


def test_the_same_create_again_after_a_crash_is_finished() -> None:
    decision = decide(given("creating"), orders.CreateSandbox(), sandbox="sb", command="asked-1", node="n1", now=NOW)
    assert decision.step == Step.FINISH_CREATING
    assert decision.refusal is None


def test_the_same_create_again_after_success_changes_nothing() -> None:
    decision = decide(given("running"), orders.CreateSandbox(), sandbox="sb", command="asked-1", node="n1", now=NOW)
    assert decision == (Step.NOTHING, None)


def test_a_create_that_another_node_is_busy_with_is_left_to_it() -> None:
    decision = decide(given("creating"), orders.CreateSandbox(), sandbox="sb", command="asked-1", node="n2", now=NOW)
    assert decision == (Step.NOTHING, None)


def test_another_create_with_a_taken_id_is_refused() -> None:
    refusal = decide(
        given("running"), orders.CreateSandbox(), sandbox="sb", command="other", node="n1", now=NOW
    ).refusal
    assert refusal is not None
    assert refusal.code == "SANDBOX_INVALID_STATE"
    assert not refusal.retryable


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_a_sandbox_is_moved_by_its_own_node_only(order: Order) -> None:
    refusal = decide(given("running"), order, sandbox="sb", command="c", node="n2", now=NOW).refusal
    assert refusal is not None
    assert "belongs to node 'n1'" in refusal.message


def test_a_fork_is_made_once_as_any_sandbox() -> None:
    order = orders.ForkSandbox(fork="sb", sequence=1)
    begun = given("creating")
    assert begun is not None
    asked = begun.requested_by or ""
    assert decide(None, order, sandbox="sb", command="c", node="n1", now=NOW).step is Step.CREATE
    assert decide(begun, order, sandbox="sb", command=asked, node="n1", now=NOW).step is Step.FINISH_CREATING
    assert decide(given("running"), order, sandbox="sb", command=asked, node="n1", now=NOW) == (Step.NOTHING, None)
    refusal = decide(given("removed"), order, sandbox="sb", command="other", node="n1", now=NOW).refusal
    assert refusal is not None
    assert "exists already" in refusal.message
