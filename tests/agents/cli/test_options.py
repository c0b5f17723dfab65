"""What people type to start an agent, and how they name what it asks for."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from contracts.agents import Verdict, verdict_for
from contracts.errors import Invalid
from contracts.events.agent import AgentApprovalRequested, AgentStarted
from infra.client.agent import Asked
from services.cli import agent_options
from services.cli.agent_answers import chosen, named, require_seen
from services.cli.agent_beginning import going_on_from
from services.cli.agent_runtimes import require_runtime


@pytest.mark.parametrize(
    ("deny", "ask", "auto", "tool", "command", "verdict"),
    [
        ([], ["Bash"], ["Bash:git *"], "Bash", "git status", Verdict.AUTO),
        ([], ["Bash"], ["Bash:git *"], "Bash", "make", Verdict.ASK),
        ([], ["Bash:git push*"], ["Bash"], "Bash", "git push origin", Verdict.ASK),
        ([], ["*"], ["Read"], "Read", "a.py", Verdict.AUTO),
        ([], ["*"], ["Read"], "Write", "a.py", Verdict.ASK),
        (["Bash:rm *"], [], ["Bash:rm -f x"], "Bash", "rm -f x", Verdict.DENY),
        ([], ["Bash"], ["Bash"], "Bash", "make", Verdict.ASK),
        ([], [], [], "Bash", "make", Verdict.AUTO),
        ([], ["Web:https://*"], [], "Web", "https://a.b", Verdict.ASK),
    ],
)
def test_denials_count_first_then_what_says_more(
    deny: list[str], ask: list[str], auto: list[str], tool: str, command: str, verdict: Verdict
) -> None:
    assert verdict_for(agent_options.rules(deny, ask, auto), tool, {"command": command}).verdict == verdict


@pytest.mark.parametrize("text", ["", ":git *"])
def test_a_rule_without_a_tool_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(Invalid, match="--ask"):
        agent_options.rules(None, [text], None)


def test_options_are_json_where_they_can_be() -> None:
    given = ["a=1", "b=text", 'c={"d":[true]}', "e=", "f=x=y"]
    assert agent_options.options(given) == {"a": 1, "b": "text", "c": {"d": [True]}, "e": "", "f": "x=y"}
    with pytest.raises(Invalid, match="NAME=VALUE"):
        agent_options.options(["plain"])


def test_a_script_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"missing\.yaml.*No such file"):
        agent_options.script(tmp_path / "missing.yaml")
    (tmp_path / "latin").write_bytes(b"say: gr\xfc\xdfe")
    with pytest.raises(Invalid, match="not UTF-8"):
        agent_options.script(tmp_path / "latin")


def test_a_runtime_has_to_be_named_unless_there_is_a_script() -> None:
    assert require_runtime(None, has_script=True) == "script"
    assert require_runtime("acp", has_script=False) == "acp"
    with pytest.raises(Invalid, match=r"one of .*script"):
        require_runtime(None, has_script=False)
    with pytest.raises(Invalid, match="--script is for"):
        require_runtime("claude", has_script=True)


def asked(*approvals: str) -> list[Asked]:
    return [asked_for({}, each) for each in approvals]


def asked_for(arguments: dict[str, Any], approval: str = "ap-1") -> Asked:
    request = AgentApprovalRequested(run="r", approval=approval, tool="Bash", input=arguments)
    return Asked("r", 1, request, datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC))


def test_the_only_one_that_waits_needs_no_name_and_several_do() -> None:
    (only,) = asked("ap-1")
    assert chosen([only], "") == (only, "")
    assert chosen([only], "because I say so") == (only, "because I say so")
    assert chosen([only], "ap-1 fine") == (only, "fine")
    several = asked("ap-1", "ap-2")
    assert chosen(several, "ap-2 fine") == (several[1], "fine")
    for words in ("", "fine", "ap-"):
        with pytest.raises(Invalid, match="say which: ap-1, ap-2"):
            chosen(several, words)
    with pytest.raises(Invalid, match="nothing waits"):
        chosen([], "")


def test_one_that_is_named_must_be_there() -> None:
    several = asked("ap-11", "ap-12")
    assert named(several, "ap-12") == several[1]
    for wrong in ("ap-1", "ap-3"):
        with pytest.raises(Invalid, match=wrong):
            named(several, wrong)


def test_leave_for_what_was_not_shown_whole_is_given_by_its_whole_id() -> None:
    require_seen(asked_for({"command": "x" * 1000}), "")
    for long in ({"command": "x" * 3000}, {"command": "\n" * 30}, {str(number): "x" for number in range(30)}):
        require_seen(asked_for(long), "ap-1")
        for name in ("", "ap-", "fine"):
            with pytest.raises(Invalid, match=r"more .*pending ap-1"):
                require_seen(asked_for(long), name)


def test_a_run_that_goes_on_from_another_is_started_as_that_one_was() -> None:
    rules = agent_options.rules(["Bash:rm *"], ["Bash"], None)
    last = AgentStarted(
        run="r-1",
        runtime="script",
        prompt="grow",
        model="m",
        max_turns=3,
        timeout_ms=1000,
        options={"script": "x"},
        approvals=(*rules, *rules),
    )
    order = going_on_from(last, "more")
    assert (order.runtime, order.prompt, order.resume, order.model) == ("script", "more", "r-1", "m")
    assert (order.max_turns, order.timeout_ms, order.options, order.keep_open) == (3, 1000, {"script": "x"}, False)
    assert order.approvals == rules
    assert going_on_from(last, "more", keep_open=True).keep_open
