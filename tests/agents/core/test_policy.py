"""Who may do what unasked, and what a run may spend."""

import pytest

from contracts.agents import Agents, TypedRule, Verdict, subject_of, verdict_for
from contracts.commands.agent import StartAgent
from contracts.errors import ClocheError, Conflict, SandboxInvalidState, SandboxNotFound
from contracts.events.agent import AgentStarted
from services.agent.budget import overrun, time_left
from services.agent.decide import may_start, started
from services.agent.record import Spent
from tests.services.test_spawner_decides import given

ORDER = StartAgent(runtime="script", prompt="grow")


def rule(verdict: Verdict, tool: str = "*", pattern: str = "*") -> TypedRule:
    return TypedRule(tool=tool, pattern=pattern, verdict=verdict)


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ({"command": "git push", "path": "x"}, "git push"),
        ({"command": ["git", "push"]}, "git push"),
        ({"file_path": "/etc/passwd", "content": "x"}, "/etc/passwd"),
        ({"url": "http://x"}, "http://x"),
        ({"number": 7}, ""),
    ],
)
def test_rules_look_at_what_a_call_is_about(arguments: dict[str, object], subject: str) -> None:
    assert subject_of(arguments) == subject


def test_the_first_rule_that_matches_decides_and_without_one_everything_goes() -> None:
    rules = (rule(Verdict.DENY, "Bash", "rm *"), rule(Verdict.ASK, "Bash"), rule(Verdict.AUTO))
    assert verdict_for(rules, "Bash", {"command": "rm -r x"}).verdict is Verdict.DENY
    assert verdict_for(rules, "Bash", {"command": "ls"}).verdict is Verdict.ASK
    assert verdict_for(rules, "Read", {"file_path": "x"}).verdict is Verdict.AUTO
    assert verdict_for((), "Bash", {"command": "rm -r x"}).verdict is Verdict.AUTO


def test_nobody_who_starts_an_agent_can_lift_what_the_node_denies() -> None:
    node = Agents(approvals=(rule(Verdict.ASK, "Write"), rule(Verdict.DENY, "Bash", "curl *")))
    order = StartAgent(runtime="script", prompt="x", approvals=(rule(Verdict.AUTO),))
    rules = started(order, "run", node).approvals
    assert verdict_for(rules, "Bash", {"command": "curl x"}).verdict is Verdict.DENY
    assert verdict_for(rules, "Write", {"path": "x"}).verdict is Verdict.AUTO
    assert verdict_for(started(ORDER, "run", node).approvals, "Write", {}).verdict is Verdict.ASK


def test_the_node_bounds_what_a_run_may_ask_for() -> None:
    node = Agents(max_budget_usd=1.0, max_tokens=1000, timeout_ms=5000)
    begun = started(StartAgent(runtime="s", prompt="x", max_budget_usd=5.0, max_tokens=10, max_turns=3), "run", node)
    assert (begun.max_budget_usd, begun.max_tokens, begun.max_turns, begun.timeout_ms) == (1.0, 10, 3, 5000)


@pytest.mark.parametrize(
    ("bound", "spent", "words"),
    [
        ({"max_budget_usd": 1.0}, Spent(cost_usd=0.99), ""),
        ({"max_budget_usd": 1.0}, Spent(cost_usd=1.0), "1.0000 of 1 USD"),
        ({"max_tokens": 10}, Spent(tokens=11), "11 of 10 tokens"),
        ({"max_turns": 2}, Spent(turns=2), ""),
        ({"max_turns": 2}, Spent(turns=3), "3 of 2 turns"),
        ({}, Spent(cost_usd=1e9, tokens=10**9, turns=10**9), ""),
    ],
)
def test_a_bound_that_is_reached_is_named(bound: dict[str, float], spent: Spent, words: str) -> None:
    assert overrun(AgentStarted(run="r", runtime="s", prompt="x", **bound), spent) == words  # type: ignore[arg-type]


def test_time_that_a_run_was_paused_does_not_count() -> None:
    begun = AgentStarted(run="r", runtime="s", prompt="x", timeout_ms=10_000)
    assert time_left(begun, 25, 20) == 5
    assert time_left(AgentStarted(run="r", runtime="s", prompt="x"), 25, 0) is None


def refusal(status: str | None, node: str = "n1", open_run: str | None = None) -> ClocheError | None:
    state = None if status is None else given(status)
    return may_start(state, sandbox="sb", node=node, open_run=open_run)


def test_a_run_begins_only_in_a_sandbox_that_runs_here_and_has_none() -> None:
    assert refusal("running") is None
    assert isinstance(refusal(None), SandboxNotFound)
    assert isinstance(refusal("creating"), Conflict)
    assert isinstance(refusal("stopped"), SandboxInvalidState)
    assert isinstance(refusal("running", node="n2"), SandboxInvalidState)
    second = refusal("running", open_run="run-1")
    assert isinstance(second, SandboxInvalidState)
    assert "run-1" in second.message


EVIL = rule(Verdict.DENY, pattern="*evil*")


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "create", "path": "/evil"},
        {"command": "", "path": "/evil"},
        {"file_path": "fine", "notes": "evil"},
        {"edits": [{"new": ["x", {"deep": "evil"}]}]},
        {"command": ["sh", "-c", "evil"]},
        {"command": "true\nevil"},
        {"command": "evil # " + "x" * 1_000_000},
        {"evil": 7},
        {"notebook_path": "evil.ipynb"},
        {"command": "x" * 5_000_000},
    ],
)
def test_a_denial_is_not_evaded_by_where_or_how_long_the_words_are(arguments: dict[str, object]) -> None:
    assert verdict_for((EVIL, rule(Verdict.AUTO)), "Tool", arguments).verdict is Verdict.DENY


def test_leave_by_pattern_is_for_what_the_call_is_about_and_nothing_beside() -> None:
    rules = (rule(Verdict.AUTO, "Bash", "ls*"), rule(Verdict.ASK))
    assert verdict_for(rules, "Bash", {"command": "ls -l"}).verdict is Verdict.AUTO
    assert verdict_for(rules, "Bash", {"command": "rm", "description": "ls"}).verdict is Verdict.ASK
    assert verdict_for(rules, "Bash", {"words": "ls"}).verdict is Verdict.ASK


def test_a_pattern_is_no_way_to_keep_everybody_waiting() -> None:
    hard = rule(Verdict.DENY, pattern="*" + "a*" * 200 + "b")
    assert verdict_for((hard,), "Bash", {"command": "a" * 200_000}).verdict is Verdict.AUTO
