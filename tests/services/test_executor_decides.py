"""May a command run? What the log says about its sandbox decides."""

import pytest

from contracts.commands.command import RunCommand
from contracts.events import sandbox as facts
from contracts.spec import ALWAYS_BLOCKED, Environment, Isolation, SandboxSpec
from contracts.state import fold
from services.executor.decide import may_run
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered
from tests.services.test_spawner_decides import given

RUN = RunCommand(shell="true")


def refusal(status: str, order: RunCommand = RUN, node: str = "n1") -> str | None:
    error = may_run(given(status), order, sandbox="sb", node=node)
    return error.code if error else None


def test_a_running_sandbox_takes_commands() -> None:
    assert refusal("running") is None


@pytest.mark.parametrize("status", ["paused", "stopped", "removed"])
def test_a_sandbox_that_does_not_run_takes_none(status: str) -> None:
    assert refusal(status) == "SANDBOX_INVALID_STATE"


def test_a_sandbox_that_is_being_created_is_worth_waiting_for() -> None:
    error = may_run(given("creating"), RUN, sandbox="sb", node="n1")
    assert error is not None
    assert error.retryable


def test_an_unknown_sandbox_is_named() -> None:
    error = may_run(None, RUN, sandbox="ghost", node="n1")
    assert error is not None
    assert error.code == "SANDBOX_NOT_FOUND"
    assert "ghost" in error.message


def test_another_nodes_sandbox_is_refused() -> None:
    assert refusal("running", node="n2") == "SANDBOX_INVALID_STATE"


@pytest.mark.parametrize("name", ALWAYS_BLOCKED)
def test_no_command_brings_a_blocked_variable_in(name: str) -> None:
    assert refusal("running", RunCommand(shell="true", env={name: "x"})) == "INVALID"


def test_the_safety_list_holds_even_where_the_spec_left_it_out() -> None:
    spec = SandboxSpec(environment=Environment(blocked=("MINE",)))
    creating = facts.SandboxCreating(spec=spec, isolation=Isolation.LOCAL, node="n1")
    state = fold(numbered([creating, CREATED, STARTED]))
    for name in ("MINE", ALWAYS_BLOCKED[0]):
        error = may_run(state, RunCommand(shell="true", env={name: "x"}), sandbox="sb", node="n1")
        assert error is not None
        assert name in error.message


def test_creating_is_all_that_a_history_needs() -> None:
    assert fold(numbered([CREATING])) is not None
