"""Scripts, played in a real sandbox by a node of real processes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.errors import Invalid, SandboxInvalidState
from contracts.events import agent as facts
from contracts.message import Fact
from infra.client import Sandbox
from infra.client.agent import Said
from tests.agents.conformance.scenes import has_file, story, told, until
from tests.agents.rig import World
from tests.agents.scripted.playing import begin, played, results, sequence, texts
from tests.agents.scripted.rig import ScriptRig

pytestmark = [pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with ScriptRig().world(tmp_path_factory.mktemp("script")) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(world: World) -> Sandbox:
    return await world.cloche.create()


def _brief(fact: Fact) -> str:
    match fact:
        case facts.AgentMessage():
            return f"{'part' if fact.partial else 'said'} {fact.text}"
        case facts.AgentThinking():
            return f"thought {fact.text}"
        case facts.AgentToolUse():
            return f"{'inner ' if fact.parent else ''}use {fact.tool}"
        case facts.AgentToolResult():
            return f"{'ok' if fact.ok else 'failed'} {fact.output}"
        case facts.AgentMetrics():
            return f"spent {fact.cost_usd:g} {fact.input_tokens} {fact.turns} {fact.tool_calls}"
        case facts.AgentCompleted():
            return f"completed {fact.reason}: {fact.result}"
    return ""


async def test_each_kind_of_step_is_on_the_record_as_it_is_done(sandbox: Sandbox) -> None:
    script = [
        {"say": ["Hel", "lo"]},
        {"think": "about ${prompt}"},
        {"write": "a.txt", "content": "one\ntwo\n"},
        {"edit": "a.txt", "old": "two", "new": "2"},
        {"edit": "a.txt", "old": "three", "new": "3"},
        {"read": "a.txt"},
        {"run": ["cat", "a.txt"]},
        {"run": "echo oops >&2; exit 3"},
        {"run": "no-such-program"},
        {"repeat": 2, "steps": [{"run": "echo ${round} of ${turn}", "expect": 0}]},
        {"subagent": "look", "steps": [{"run": "echo inside"}, {"say": "found"}, {"fail": "tired"}]},
        {"spend": {"cost_usd": 0.25, "input_tokens": 7}},
        {"say": "done"},
    ]
    told_ = [_brief(fact) for fact in await played(sandbox, script, prompt="the weather")]
    assert [line for line in told_ if line] == [
        "part Hello",
        "said Hello",
        "thought about the weather",
        "use write",
        "ok 8 bytes written, 8 in the file",
        "use edit",
        "ok 1 replaced, the first in line 2",
        "use edit",
        "failed SANDBOX_EDIT_NO_MATCH: /workspace/a.txt: the text to be replaced is not in the file",
        "use read",
        "ok one\n2\n",
        "use run",
        "ok one\n2",
        "use run",
        "failed oops\n[exit code 3]",
        "use run",
        "failed /bin/sh: 1: no-such-program: not found\n[exit code 127]",
        "use run",
        "ok 1 of 1",
        "use run",
        "ok 2 of 1",
        "use subagent",
        "inner use run",
        "ok inside",
        "said found",
        "failed AGENT_FAILED: tired",
        "spent 0.25 7 0 0",
        "said done",
        "spent 0 0 1 11",
        "completed done: done",
    ]


async def test_a_command_that_ends_unlike_expected_fails_the_run(sandbox: Sandbox) -> None:
    run = await begin(sandbox, [{"run": "exit 4", "expect": 4}, {"run": "exit 5", "expect": 0}, {"say": "never"}])
    result = await run.wait()
    assert (result.outcome, result.reason) == ("error", "exit 5: exit code 5, not 0")
    assert [ok for ok, _ in results(await story(run))] == [True, False]


async def test_a_command_is_ended_at_its_time_out(sandbox: Sandbox) -> None:
    ((ok, output),) = results(await played(sandbox, [{"run": "echo begun; sleep 600", "timeout_ms": 200}]))
    assert not ok
    assert output.startswith("begun\n[timed_out: ")


async def test_a_question_waits_for_its_answer(sandbox: Sandbox) -> None:
    run = await begin(sandbox, [{"ask": "Which colour?"}, {"run": ["echo", "${message}"]}, {"say": "It is ${message}"}])
    question = await until(run, facts.AgentMessage)
    await sandbox.agent.message("green")
    assert (question.text, (await run.wait()).result) == ("Which colour?", "It is green")
    assert results(await story(run)) == [(True, "green"), (True, "green")]
    assert [fact.where for fact in await told(run, facts.AgentDelivered)] == ["turn"]


@pytest.mark.parametrize(("allowed", "words"), [(True, ["deploying", "end"]), (False, ["not deploying", "end"])])
async def test_leave_that_is_asked_for_decides_what_is_done(sandbox: Sandbox, allowed: bool, words: list[str]) -> None:
    ask = {"ask": "May I?", "tool": "deploy", "input": {"path": "live"}}
    branches = {"steps": [{"say": "deploying"}], "denied": [{"say": "not deploying"}]}
    run = await begin(sandbox, [{**ask, **branches}, {"say": "end"}])
    asked = await until(run, facts.AgentApprovalRequested)
    assert (asked.tool, asked.input) == ("deploy", {"question": "May I?", "path": "live"})
    await (sandbox.agent.approve if allowed else sandbox.agent.reject)(asked.approval, reason="so be it")
    await run.wait()
    assert texts(await story(run)) == words
    assert results(await story(run)) == [(True, "approved") if allowed else (False, "denied by user: so be it")]


async def test_it_waits_for_a_file_a_while_or_a_message(sandbox: Sandbox) -> None:
    waits = [
        {"wait": {"ms": 5}},
        {"wait": {"file": "never", "timeout_ms": 50}},
        {"wait": {"message": True, "timeout_ms": 50}},
        {"wait": {"file": "there"}},
        {"wait": {"message": True}},
        {"say": "heard ${message}"},
    ]
    run = await begin(sandbox, waits)
    await until(run, facts.AgentToolUse, count=4)
    await sandbox.files.write("there", b"")
    await until(run, facts.AgentToolUse, count=5)
    await sandbox.agent.guide("mind the gap")
    assert (await run.wait()).result == "heard [USER] mind the gap"
    assert results(await story(run)) == [
        (True, ""),
        (True, "never is not there"),
        (True, "nobody has said anything"),
        (True, "there is there"),
        (True, "[USER] mind the gap"),
    ]


async def test_what_is_said_while_it_works_is_heard_before_the_next_call_and_can_be_answered(sandbox: Sandbox) -> None:
    steps = [{"wait": {"file": "go"}}, {"run": ["echo", "${message}"]}, {"say": "end"}]
    heard = [{"say": "I hear ${message}"}, {"run": "true"}]
    run = await begin(sandbox, {"on_message": heard, "steps": steps})
    await until(run, facts.AgentToolUse)
    await sandbox.agent.message("a")
    await sandbox.agent.message("b")
    await sandbox.files.write("go", b"")
    await run.wait()
    uses = await told(run, facts.AgentToolUse)
    assert [fact.tool for fact in uses] == ["wait", "run", "run"]
    assert [(fact.where, fact.call) for fact in await told(run, facts.AgentDelivered)] == [
        ("tool_call", uses[2].call),
        ("tool_call", uses[2].call),
    ]
    assert texts(await story(run)) == ["I hear a\nb", "end"]
    assert results(await story(run))[-1] == (True, "a\nb")


async def test_an_interrupt_ends_a_wait_and_withdraws_what_is_asked(sandbox: Sandbox) -> None:
    ask = {"ask": "May I?", "tool": "deploy", "steps": [{"say": "never"}], "denied": [{"say": "never"}]}
    run = await begin(sandbox, {"turns": [[{"wait": {"ms": 600_000}}, {"say": "never"}], [ask, {"say": "never"}], []]})
    await until(run, facts.AgentToolUse)
    await sandbox.agent.interrupt("first", wait=True)
    await sandbox.agent.message("next")
    asked = await until(run, facts.AgentApprovalRequested)
    await sandbox.agent.interrupt("second", wait=True)
    with pytest.raises(Invalid, match="answered already"):
        await sandbox.agent.approve(asked.approval)
    await sandbox.agent.interrupt("while idle", wait=True)
    await sandbox.agent.message("last")
    result = await run.wait()
    assert (result.outcome, result.turns) == ("completed", 3)
    assert [fact.reason for fact in await told(run, facts.AgentInterrupted)] == ["first", "second", "while idle"]
    assert results(await story(run)) == [(False, "interrupted"), (False, "interrupted")]
    assert texts(await story(run)) == []


async def test_a_later_run_goes_on_with_the_next_turn_of_the_script(sandbox: Sandbox) -> None:
    script = {"turns": [[{"say": "one"}], [{"say": "${turn}: ${prompt}"}]], "otherwise": [{"say": "that was all"}]}
    first = await begin(sandbox, script)
    await first.wait()
    second = await begin(sandbox, script, prompt="go on", resume=first.id)
    assert (await second.wait()).result == "2: go on"
    third = await begin(sandbox, None, resume=second.id)
    assert (await third.wait()).result == "that was all"
    other = await begin(sandbox, {"turns": [[{"say": "another"}], [{"fail": "no"}]]}, resume=third.id)
    assert (await other.wait()).result == "another"
    failed = await begin(sandbox, None, resume=other.id)
    assert (await failed.wait()).reason == "no"
    again = await begin(sandbox, None, resume=failed.id)
    assert (await again.wait()).reason == "no"


async def test_spending_beyond_the_budget_ends_the_run(sandbox: Sandbox) -> None:
    steps = [{"repeat": 5, "steps": [{"spend": {"cost_usd": 0.3}}, {"say": "${round}"}]}]
    run = await begin(sandbox, steps, max_budget_usd=0.5)
    assert (await run.wait()).reason == "budget: 0.6000 of 0.5 USD"
    assert texts(await story(run)) == ["1"]


async def test_a_command_that_is_lost_with_its_sandbox_is_told_and_the_script_goes_on(world: World) -> None:
    sandbox = await world.cloche.create()
    steps = [
        {"say": "before"},
        {"subagent": "work", "steps": [{"run": "touch begun; sleep 600"}, {"run": "echo once >> log"}]},
        {"say": "after"},
    ]
    run = await begin(sandbox, steps)
    await has_file(sandbox, "begun")
    await sandbox.recover(reason="lightning")
    assert (await run.wait()).result == "after"
    lost, once, work = results(await story(run))
    assert (lost[0], "lost" in lost[1]) == (False, True)
    assert (once, work) == ((True, ""), (True, ""))
    assert texts(await story(run)) == ["before", "after"]
    assert (await sandbox.run("cat log")).stdout == b"once\n"
    assert "lightning" in (await told(run, facts.AgentAttached))[1].reason


async def test_an_interrupt_that_outlives_the_service_still_ends_what_an_earlier_life_has_begun(world: World) -> None:
    sandbox = await world.cloche.create()
    deaf = {"run": "trap '' TERM; touch begun; while :; do sleep 1; done"}
    steps = [{"subagent": "dig", "steps": [deaf, {"say": "never"}]}, {"say": "never"}]
    run = await begin(sandbox, {"turns": [steps, [{"say": "back"}]]})
    await has_file(sandbox, "begun")
    await sandbox.agent.interrupt("enough")
    await world.node.restart("agent")
    await until(run, facts.AgentInterrupted)
    assert await sandbox.running() == []
    await sandbox.agent.message("go on")
    assert (await run.wait()).result == "back"
    assert results(await story(run)) == [(False, "[cancelled: interrupted: enough]"), (False, "interrupted")]


KILLED = {
    "on_message": [{"say": "I hear ${message}"}],
    "turns": [
        [
            {"say": ["be", "gin"]},
            {"write": "grown", "content": "a\n", "append": True},
            {"edit": "grown", "old": "a", "new": "aa"},
            {"run": "until [ -e go ]; do sleep 0.02; done; echo c >> grown; echo d"},
            {"ask": "What now?"},
            {"subagent": "${message}", "steps": [{"run": "echo e >> grown"}]},
            {"spend": {"input_tokens": 5}},
            {"say": "end"},
        ],
    ],
}


async def test_a_service_that_is_killed_after_every_event_tells_and_does_everything_once(world: World) -> None:
    async def play(*, kill: bool) -> tuple[list[tuple[str, dict[str, object]]], bytes]:
        sandbox = await world.cloche.create()
        run = await begin(sandbox, KILLED)
        seen, over = run.first_sequence, False
        while not over:
            async for event in run.events(seen + 1, follow=True):
                over, seen = event.ends_run, event.sequence
                if isinstance(event.fact, facts.AgentMessage) and event.fact.text == "What now?":
                    await sandbox.agent.message("go on", id=f"m-{run.id}")
                if isinstance(event.fact, facts.AgentToolUse) and event.fact.tool == "run" and not event.fact.parent:
                    await sandbox.agent.message("listen", id=f"n-{run.id}")
                    await sandbox.files.write("go", b"")
                if kill and not over and event.head.type.startswith("agent."):
                    break
            if kill and not over:
                await world.node.restart("agent")
        grown = (await sandbox.run("cat grown")).stdout
        return await sequence(run), grown

    calm, disturbed = await play(kill=False), await play(kill=True)
    assert disturbed[1] == calm[1] == b"aa\nc\ne\n"
    assert _sorted(disturbed[0]) == _sorted(calm[0])


def _sorted(told_: list[tuple[str, dict[str, object]]]) -> list[tuple[str, dict[str, object]]]:
    """What somebody says comes when it comes; what the agent says and does has an order of its own."""
    return [each for each in told_ if each[0].startswith("Agent")]


MOMENTS = st.floats(0, 0.25)


@settings(max_examples=10, deadline=None)
@given(moments=st.lists(MOMENTS, min_size=1, max_size=6), killed=st.none() | MOMENTS)
async def test_what_is_said_at_any_moment_is_delivered_once_and_in_order(
    world: World, sandbox: Sandbox, moments: list[float], killed: float | None
) -> None:
    turn = [{"say": "begin"}, {"repeat": 3, "steps": [{"run": "true"}]}, {"write": "x", "content": ""}, {"say": "end"}]
    run = await begin(sandbox, {"turns": [turn], "otherwise": turn})

    async def say(moment: float) -> Said | None:
        await asyncio.sleep(moment)
        try:
            return await sandbox.agent.message(f"after {moment}", run=run.id)
        except SandboxInvalidState:
            return None

    async def kill() -> None:
        if killed is not None:
            await asyncio.sleep(killed)
            await world.node.restart("agent")

    *said, _ = await asyncio.gather(*(say(moment) for moment in moments), kill())
    assert (await run.wait()).outcome == "completed"
    heard = sorted((each.sequence, each.order) for each in said if each is not None)
    assert [(fact.sequence, fact.order) for fact in await told(run, facts.AgentDelivered)] == heard
    calls = [fact.call for fact in await told(run, facts.AgentToolUse)]
    assert [fact.call for fact in await told(run, facts.AgentToolResult)] == calls
    assert len(calls) == len(set(calls))
