"""A program in the place of the image's Python that does as it likes: a clear error, and nothing else is harmed."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from contracts.agents import ApprovalRule, Verdict
from contracts.errors import Invalid
from contracts.events import agent as facts
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from tests.agents.node import agent_node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEADLINE_S = 60.0


def lines(*events: dict[str, Any], first: int = 1) -> str:
    return "".join(json.dumps({"n": number, **event}) + "\n" for number, event in enumerate(events, first))


HELLO = {"event": "hello", "python": "3.13"}
READY = {"event": "ready", "sdk": "0", "resumed": False}
CALL = {"call": "c", "tool": "terminal", "input": {}}
USAGE = {
    "event": "usage",
    "cost_usd": 0,
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_read_tokens": 0,
    "cache_write_tokens": 0,
    "reasoning_tokens": 0,
    "tool_calls": 0,
}
OPENS = f"printf '%s' '{lines(HELLO, READY)}'; read -r start; read -r turn"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    data = tmp_path_factory.mktemp("openhands-hostile")
    (data / "cloche.toml").write_text("[agent]\nhandshake_s = 2.0\nsilence_s = 4.0\nmax_output_bytes = 3000000\n")
    async with agent_node_in(data) as node, node.connect() as cloche:
        yield await cloche.create({})


async def played(sandbox: Sandbox, script: str, approvals: Sequence[ApprovalRule] = ()) -> AgentRun:
    """A run whose program is this line of shell."""
    await sandbox.files.write("program", f"#!/bin/sh\n{script}\n")
    await sandbox.run(["chmod", "+x", "program"])
    options = {"python": "/workspace/program"}
    return await sandbox.agent.start("openhands", "Go", model="m", approvals=approvals, options=options)


def says(*events: dict[str, Any]) -> str:
    return f"{OPENS}; printf '%s' '{lines(*events, first=3)}'"


WRONG = {
    f"{OPENS}; while :; do echo garbage; done": "does not speak its protocol",
    "echo broken >&2; exit 7": "exit code 7",
    "exec cat >/dev/null": "does not answer",
    "echo '[1]'; echo '{}'; echo 7; exec cat >/dev/null": "does not answer",
    f"{OPENS}; exec sleep 0.5": "ended before its time",
    f"{OPENS}; exec 1>&-; exec sleep 60": "has said nothing",
    f"{OPENS}; exec yes '{json.dumps({'n': 3, 'event': 'note', 'text': 'x' * 999})}'": "its number is not 4",
    f"{OPENS}; head -c 20000000 /dev/zero | tr '\\0' x": "more than",
    says({"event": "turn", "turn": 2, "status": "finished", "result": ""}): "not told to begin",
    says({"event": "turn", "turn": 1, "status": "error", "result": "", "code": "Odd", "detail": "no way"}): "no way",
    says({"event": "turn", "turn": 1, "status": "stuck", "result": ""}): "the agent is stuck",
    says({"event": "error", "code": "missing", "detail": "openhands is not there"}): "openhands is not there",
}


@pytest.mark.parametrize(("script", "words"), WRONG.items(), ids=WRONG.values())
async def test_what_it_does_wrong_is_told_and_the_run_ends(sandbox: Sandbox, script: str, words: str) -> None:
    run = await played(sandbox, script)
    result = await run.wait()
    assert result.outcome == "error"
    assert words in result.reason, result.reason
    assert result.failure is not None
    assert result.failure.code == "AGENT_FAILED"
    async with asyncio.timeout(DEADLINE_S):
        while await sandbox.running():
            await asyncio.sleep(0.05)


async def test_more_calls_than_anybody_gives_leave_for_are_a_flood(sandbox: Sandbox) -> None:
    asks = [{"event": "approval_needed", "ask": number, "calls": [CALL] * 50} for number in range(5)]
    run = await played(sandbox, f"{says(*asks)}; exec sleep 60", [ApprovalRule(verdict=Verdict.ASK)])
    assert "more than 200 tool calls at a time" in (await run.wait()).reason


async def test_lies_about_ids_and_amounts_do_no_harm(sandbox: Sandbox) -> None:
    obeyed = {"event": "interrupted", "id": "nobody asked for it", "killed": 3}
    result = {"event": "tool_result", "call": "unheard of", "tool": "x", "truncated": False, "ok": True}
    refused: list[dict[str, Any]] = [
        {**USAGE, "cost_usd": -5.0},
        {**USAGE, "input_tokens": 10**30},
        {**USAGE, "turn_ms": "soon"},
        {**result, "text": "\ud800", "duration_ms": 1},
        {"event": "message", "message": "m" * 5000, "text": "too long a name"},
    ]
    taken: list[dict[str, Any]] = [
        obeyed,
        obeyed,
        {**result, "text": "!", "duration_ms": 1},
        {"event": "transcript", "path": "../../etc/passwd", "data": "x", "replaces": False},
        USAGE,
        {"event": "message", "message": "m1", "text": "goodbye"},
        {"event": "turn", "turn": 1, "status": "finished", "result": "goodbye"},
    ]
    wrong = "".join(json.dumps({"n": 3, **event}) + "\n" for event in refused)
    await sandbox.files.write("lies", wrong + lines(*taken, first=3))
    run = await played(sandbox, f"{OPENS}; cat lies; read -r stop; exit 0")
    ended = await run.wait()
    assert (ended.outcome, ended.result) == ("completed", "goodbye"), ended
    assert (ended.tokens, ended.cost_usd) == (2, 0)
    errors = [event.fact async for event in run.events() if isinstance(event.fact, facts.AgentError)]
    assert [error.final for error in errors] == [False]
    assert not [event async for event in run.events() if isinstance(event.fact, facts.AgentInterrupted)]


async def test_a_sandbox_without_the_sdk_says_what_is_missing(sandbox: Sandbox) -> None:
    run = await sandbox.agent.start("openhands", "Go", model="m")
    result = await run.wait()
    assert result.outcome == "error"
    assert "openhands is not there for Python 3." in result.reason


async def test_what_cannot_be_right_is_refused_at_once(sandbox: Sandbox) -> None:
    with pytest.raises(Invalid, match="needs a model"):
        await sandbox.agent.start("openhands", "Go")
    with pytest.raises(Invalid, match="pythons"):
        await sandbox.agent.start("openhands", "Go", model="m", options={"pythons": "x"})
