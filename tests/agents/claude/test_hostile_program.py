"""A program in the place of the CLI that does as it likes: a clear error, and nothing else is harmed."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.events import agent as facts
from contracts.events.agent import AgentError
from infra.client import Sandbox
from infra.client.agent_run import AgentResult, AgentRun
from services.agent.runtimes.claude.mirror import MOST_BYTES, weight
from tests.agents.claude.following import DEADLINE_S, told, until
from tests.agents.claude.program import HANDSHAKE, kept, start
from tests.agents.node import AgentNode, agent_node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentNode]:
    data = tmp_path_factory.mktemp("claude-hostile")
    (data / "cloche.toml").write_text("[agent]\nhandshake_s = 3.0\nmax_output_bytes = 3000000\n")
    async with agent_node_in(data) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(node: AgentNode) -> AsyncIterator[Sandbox]:
    async with node.connect() as cloche:
        yield await cloche.create({})


async def played(
    sandbox: Sandbox, script: str, approvals: Sequence[TypedRule] = ()
) -> tuple[AgentResult, list[AgentError]]:
    await sandbox.files.write("program", f"#!/bin/sh\n{script}\n")
    await sandbox.run(["chmod", "+x", "program"])
    run = await sandbox.agent.start("claude", "Go", approvals=approvals, options={"cli": "/workspace/program"})
    return await run.wait(), await told(run, facts.AgentError)


ANSWERS = f"read -r asked; echo '{HANDSHAKE}'"
WRONG = {
    f"{ANSWERS}; while :; do echo garbage; done": "does not speak its protocol",
    "echo broken >&2; exit 7": "exit code 7",
    "echo '[1]'; echo '{}'; echo 7; exec cat >/dev/null": "does not answer",
    f"{ANSWERS}; exec sleep 0.5": "ended before the run was over",
    f"{ANSWERS}; exec yes '{json.dumps({'type': 'noise' * 200})}'": "more than 3000000 bytes",
    f"{ANSWERS}; head -c 20000000 /dev/zero | tr '\\0' x": "more than",
}


@pytest.mark.parametrize(("script", "words"), WRONG.items(), ids=WRONG.values())
async def test_what_it_does_wrong_is_told_and_the_run_ends(sandbox: Sandbox, script: str, words: str) -> None:
    result, errors = await played(sandbox, script)
    assert result.outcome == "error"
    assert words in result.reason, result.reason
    assert errors[-1].failure.code == "AGENT_FAILED"
    async with asyncio.timeout(DEADLINE_S):
        while await sandbox.running():
            await asyncio.sleep(0.05)


async def test_more_questions_than_anybody_answers_are_a_flood(sandbox: Sandbox) -> None:
    asked = {"subtype": "can_use_tool", "tool_name": "x", "input": {}}
    questions = [
        {"type": "control_request", "request_id": f"q{number}", "request": {**asked, "tool_use_id": f"c{number}"}}
        for number in range(300)
    ]
    await sandbox.files.write("questions", "\n".join([HANDSHAKE, *map(json.dumps, questions)]) + "\n")
    result, _ = await played(sandbox, "cat questions; exec sleep 60", [TypedRule(verdict=Verdict.ASK)])
    assert "questions at a time" in result.reason


async def test_last_words_are_kept(sandbox: Sandbox) -> None:
    _, errors = await played(sandbox, "echo why it broke >&2; exit 7")
    assert errors[-1].detail == "why it broke"


async def test_frames_of_any_shape_do_no_harm(sandbox: Sandbox) -> None:
    """Each field that is looked at is something else than it should be.

    Who tells the lives of what it was told, as here from the first, is not done with its result alone.
    """
    shapes = [
        *({"type": kind, "message": shape, "event": shape, "response": shape, "request": shape, "entries": shape,
           "filePath": shape, "subtype": shape, "usage": shape, "model_usage_since_last_result": shape, "errors": shape,
           "request_id": shape, "command_uuid": shape, "state": shape, "parent_tool_use_id": shape}
          for kind in ("command_lifecycle", "assistant", "user", "stream_event", "result", "system",
                       "transcript_mirror", "control_response", "control_cancel_request", "strange")
          for shape in (None, 7, -1.5, "x", [], [1, {"type": "text"}], {"content": [{"type": "tool_use", "id": 7}]},
                        {"content": "x", "id": []})),
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "\ud800"}]}},
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "c", "name": "n" * 999, "input": 1}]}},
        {"type": "transcript_mirror", "filePath": "/tmp/.claude/projects/x/../../../etc/passwd.jsonl", "entries": [{}]},
        {"type": "result", "total_cost_usd": float("inf"), "duration_ms": 10**400},
    ]  # fmt: skip
    lines = "\n".join([HANDSHAKE, *map(json.dumps, shapes)])
    await sandbox.files.write("frames", lines + "\n")
    result, errors = await played(sandbox, "cat frames; read -r l; echo end >&2; exit 3")
    assert result.reason.endswith("exit code 3"), result
    assert all(error.failure.code == "AGENT_FAILED" for error in errors)


async def test_a_program_that_is_not_there_is_told_with_the_remedy(sandbox: Sandbox) -> None:
    run = await sandbox.agent.start("claude", "Go", options={"cli": "/workspace/nowhere"})
    result = await run.wait()
    assert result.outcome == "error"
    assert "nowhere" in result.reason


ASK = [TypedRule(verdict=Verdict.ASK)]


async def test_leave_for_one_call_is_none_for_another_of_the_same_name_or_of_none(sandbox: Sandbox) -> None:
    script = """
greet(); hear()
tell(ask("r1", "c", "ls")); first = hear()
tell(ask("r2", "c", "ls"), ask("r3", "c", "rm -rf /"), ask("r4", None, "w"), ask("r5", None, "x"))
when("go"); tell(cancel("r4"))
answers = [first] + [hear() for _ in range(3)]
keep("got", {each["response"]["request_id"]: each["response"]["response"]["behavior"] for each in answers})
tell(result()); hear()
"""
    run = await start(sandbox, script, approvals=ASK)
    await sandbox.agent.approve((await until(run, facts.AgentApprovalRequested)).approval)
    await until(run, facts.AgentApprovalRequested, lambda each: each.input["command"] == "x")
    waiting = {each.request.input["command"]: each.request.approval for each in await sandbox.agent.pending()}
    assert list(waiting) == ["ls", "rm -rf /", "w", "x"]
    await sandbox.files.write("go", "")
    withdrawn = await until(run, facts.AgentRejected)
    assert withdrawn.approval == waiting["w"]
    for command in ("ls", "rm -rf /"):
        await sandbox.agent.reject(waiting[command])
    await sandbox.agent.approve(waiting["x"])
    assert await kept(sandbox, "got") == {"r1": "allow", "r2": "deny", "r3": "deny", "r5": "allow"}
    assert (await run.wait()).outcome == "completed"


async def test_what_went_with_calls_that_were_let_go_is_said_again_once(node: AgentNode, sandbox: Sandbox) -> None:
    """Also where a call is let go while much is being delivered with it, or the service is killed then."""
    script = """
greet(); hear()
for life in range(2):
    when(f"go-{life}")
    for number in range(6):
        name = f"{life}-{number}"
        tell(hook(name, name)); time.sleep(0.01 * 2**number); tell(cancel(name))
tell(result())
while (said := hear())["type"] != "user": pass
keep("got", said["message"]["content"])
tell(result())
while hear(): pass
"""
    run = await start(sandbox, script, keep_open=True)
    words = [f"word-{number}." for number in range(40)]
    for life in range(2):
        orders = [(await sandbox.agent.message(each)).order for each in words[life::2]]
        await sandbox.files.write(f"go-{life}", "")
        await delivered(run, orders[0])
        if life == 0:
            await node.restart("agent")
    await until(run, facts.AgentWaiting)
    await sandbox.agent.message("The last.")
    content = await kept(sandbox, "got")
    assert [content.count(each) for each in words] == [1] * len(words)
    await sandbox.agent.stop(wait=True)


async def delivered(run: AgentRun, order: str) -> None:
    await until(run, facts.AgentDelivered, lambda each: each.order == order)


async def test_a_transcript_without_an_end_is_kept_up_to_a_bound(node: AgentNode, sandbox: Sandbox) -> None:
    script = """
greet(); hear()
tell(mirror([{}] * 20000), *[mirror([{}] * 10000)] * 70)
when("go"); tell(mirror([{}]), result()); hear()
"""
    run = await start(sandbox, script)
    told_of = await until(run, facts.AgentError, lambda each: "no longer kept" in each.failure.message)
    assert not told_of.final
    await node.restart("agent")
    await sandbox.files.write("go", "")
    assert (await run.wait()).outcome == "completed"
    errors = [each.failure.message for each in await told(run, facts.AgentError)]
    assert ["entries at a time" in each for each in errors] == [True, False]
    pieces = await told(run, facts.AgentTranscript)
    assert len(pieces) == MOST_BYTES // weight(b"{}\n" * 10000)


async def test_a_pause_is_no_part_of_the_time_for_the_handshake(sandbox: Sandbox) -> None:
    run = await start(sandbox, 'keep("here", 1); when("go"); greet(); hear(); tell(result()); hear()')
    await kept(sandbox, "here")
    await sandbox.agent.pause(wait=True)
    await sandbox.run(["sleep", "3.5"])
    await sandbox.files.write("go", "")
    await sandbox.agent.resume()
    assert (await run.wait()).outcome == "completed"


async def test_costs_that_are_told_as_sums_are_counted_once(sandbox: Sandbox) -> None:
    run = await start(
        sandbox,
        """
greet(); hear(); when("go")
tell(result(total_cost_usd=0.5)); hear()
tell(result(total_cost_usd=0.75)); hear()
""",
    )
    await until(run, facts.AgentAttached)
    await sandbox.agent.message("Once more")
    await sandbox.files.write("go", "")
    ended = await run.wait()
    assert (ended.turns, ended.cost_usd) == (2, 0.75)


async def test_an_error_of_any_text_ends_the_run_and_its_program(sandbox: Sandbox) -> None:
    run = await start(sandbox, 'greet(); hear(); tell(result(is_error=True, result="\\ud800 I fail")); time.sleep(600)')
    ended = await run.wait()
    assert ended.outcome == "error"
    assert "I fail" in ended.reason
    assert await sandbox.running() == []
