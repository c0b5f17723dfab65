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
from infra.client.agent_run import AgentResult
from tests.agents.claude.following import DEADLINE_S, told
from tests.agents.node import agent_node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANDSHAKE = json.dumps(
    {
        "type": "control_response",
        "response": {
            "subtype": "success",
            "request_id": "cloche-initialize",
            "response": {"hook_on_failure_supported": True},
        },
    }
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    data = tmp_path_factory.mktemp("claude-hostile")
    (data / "cloche.toml").write_text("[agent]\nhandshake_s = 5.0\nmax_output_bytes = 3000000\n")
    async with agent_node_in(data) as node, node.connect() as cloche:
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
    """Each field that is looked at is something else than it should be."""
    shapes = [
        *({"type": kind, "message": shape, "event": shape, "response": shape, "request": shape, "entries": shape,
           "filePath": shape, "subtype": shape, "usage": shape, "model_usage_since_last_result": shape, "errors": shape,
           "request_id": shape, "command_uuid": shape, "state": shape, "parent_tool_use_id": shape}
          for kind in ("assistant", "user", "stream_event", "result", "system", "transcript_mirror", "control_response",
                       "control_cancel_request", "command_lifecycle", "strange")
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
