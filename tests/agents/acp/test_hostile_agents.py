"""Agents that break their protocol, in every way: a clear error, and the sandbox and the service go on."""

import json
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from contracts import codec
from contracts.events import agent as facts
from contracts.events.command import CommandInput
from infra.client import Cloche, Sandbox
from infra.client.agent_run import AgentResult
from tests.agents.acp.player import ASK, Step, options, play, sandbox_with_agent, story, told, until
from tests.agents.node import AgentNode, agent_node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = "[agent]\nhandshake_s = 3\nsilence_s = 3\nmax_output_bytes = 40_000_000\n"
OURS = {"jsonrpc": "2.0", "method": "session/update"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentNode]:
    data = tmp_path_factory.mktemp("node")
    (data / "cloche.toml").write_text(SETTINGS)
    async with agent_node_in(data) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: AgentNode) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(cloche: Cloche) -> Sandbox:
    return await sandbox_with_agent(cloche)


async def failed(sandbox: Sandbox, *steps: Step, **order: Any) -> AgentResult:
    """The error that it ends with; the sandbox is unharmed, and the service takes the next run."""
    run = await play(sandbox, *steps, **order)
    result = await run.wait()
    assert result.failure is not None, await story(run)
    assert result.failure.code == "AGENT_FAILED"
    following = await play(sandbox, {"say": "fine"})
    assert (await following.wait()).result == "fine"
    return result


def raw(message: object) -> Step:
    return {"raw": json.dumps(message)}


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([{"raw": "not protocol"}] * 25, "protocol"),
        ([{"lie": "another session"}], "protocol"),
        ([raw({"jsonrpc": "2.0", "id": number, "method": "fs/x"}) for number in range(2000)], "protocol"),
        ([{"huge": 17 * 1024 * 1024}, {"hang": True}], "line"),
        ([{"stderr": "my last words"}, {"crash": 7}], "ended"),
        ([{"kill": 9}], "ended"),
        ([{"fail": "I cannot"}], "refused"),
        ([{"close": True}, {"hang": True}], "hang"),
        ([{"fork": 20}, {"crash": 0}], "ended"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, list) else value,
)
async def test_an_agent_that_breaks_the_protocol_ends_in_a_clear_error(
    sandbox: Sandbox, steps: list[Step], reason: str
) -> None:
    result = await failed(sandbox, *steps)
    assert result.failure is not None
    assert result.failure.details["reason"] == reason, result.failure
    assert len(result.failure.message) < 1000


async def test_the_last_words_of_a_program_that_crashed_are_told(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"stderr": "out of luck"}, {"crash": 7})
    failure = await until(run, facts.AgentError)
    assert "exit code 7" in failure.failure.message
    assert failure.detail == "out of luck"


@pytest.mark.parametrize(
    ("manners", "reason"),
    [
        ({"at": {"session/new": [{"fail": "log in first"}]}}, "refused"),
        ({"version": 7}, "protocol"),
        ({"at": {"initialize": [{"crash": 1}]}}, "ended"),
    ],
    ids=json.dumps,
)
async def test_an_agent_that_does_not_come_to_its_first_turn_ends_in_a_clear_error(
    sandbox: Sandbox, manners: Step, reason: str
) -> None:
    result = await failed(sandbox, manners=manners)
    assert result.failure is not None
    assert result.failure.details["reason"] == reason, result.failure


async def test_a_run_that_is_paused_while_its_agent_is_greeted_does_not_use_up_its_time(
    cloche: Cloche, sandbox: Sandbox
) -> None:
    run = await play(sandbox, {"say": "hello"}, manners={"at": {"initialize": [{"await": "greeting"}]}})
    process = (await until(run, facts.AgentAttached)).process
    await greeted(sandbox, process)
    await sandbox.agent.pause(wait=True)
    # One that began later, and was not paused, has used up its time.
    other = await sandbox_with_agent(cloche)
    hanging = await (await play(other, manners={"at": {"initialize": [{"hang": True}]}})).wait()
    assert hanging.failure is not None
    assert hanging.failure.details["reason"] == "hang"
    await sandbox.files.write("greeting", b"")
    # Nor is the silence of a pause held against it.
    await sandbox.agent.resume(wait=True)
    assert (await run.wait()).result == "hello"
    assert await told(run, facts.AgentError) == []


async def greeted(sandbox: Sandbox, process: str) -> None:
    """Returns when its first line is on its way to it."""
    async for event in sandbox.events(types=["command.input"], follow=True):
        fact = codec.decode_fact(event.head)
        if isinstance(fact, CommandInput) and fact.exec == process:
            return


async def test_a_program_that_is_not_there_is_told_so(sandbox: Sandbox) -> None:
    run = await sandbox.agent.start("acp", "hello", options={"command": ["no-such-agent"]})
    result = await run.wait()
    assert result.failure is not None
    assert "no-such-agent" in result.failure.message


async def test_a_name_used_twice_does_not_carry_leave_from_one_call_to_another(sandbox: Sandbox) -> None:
    twice = {"id": "same", "kind": "execute", "file": "twice"}
    run = await play(
        sandbox,
        {"ask": {**twice, "input": {"command": "ls"}}},
        {"ask": {**twice, "input": {"command": "rm -r /"}}},
        approvals=ASK,
    )
    first = await until(run, facts.AgentApprovalRequested)
    await sandbox.agent.approve(first.approval)
    second = await until(run, facts.AgentApprovalRequested, lambda asked: asked.approval != first.approval)
    assert second.input["command"] == "rm -r /"
    await sandbox.agent.reject(second.approval)
    await run.wait()
    assert (await sandbox.files.read("/workspace/twice")).content == "same\n"


async def test_options_of_a_question_that_offer_no_yes_are_a_no(sandbox: Sandbox) -> None:
    only = [{"optionId": "yes", "name": "Allow", "kind": "reject_once"}]
    run = await play(sandbox, {"ask": {"id": "a", "file": "tricked", "options": []}}, {"say": "asked"})
    assert (await run.wait()).outcome == "completed"
    assert [each.ok for each in await told(run, facts.AgentToolResult)] == [False]
    run = await play(sandbox, {"ask": {"id": "a", "file": "tricked", "options": only}}, {"say": "asked"})
    assert (await run.wait()).outcome == "completed"
    assert (await sandbox.run("ls tricked")).stdout == b""


async def test_what_a_later_version_of_the_protocol_says_is_left_alone(sandbox: Sandbox) -> None:
    strange = {**OURS, "params": {"sessionId": "?", "update": {"sessionUpdate": "of_tomorrow", "x": 1}}}
    run = await play(sandbox, raw(strange), raw({**OURS, "method": "_vendor/hello"}), {"say": "still here"})
    assert (await run.wait()).result == "still here"
    assert await told(run, facts.AgentError) == []


async def test_a_flood_ends_in_a_clear_error_and_is_not_held_in_memory(node: AgentNode, sandbox: Sandbox) -> None:
    service = psutil.Process(node.services["agent"].pid)
    before = service.memory_info().rss
    run = await play(sandbox, {"endless": 2000})
    result = await run.wait()
    assert result.failure is not None
    assert result.failure.details["reason"] == "flood", result.failure
    assert service.memory_info().rss - before < 20_000_000


async def test_many_words_are_whole_in_few_events(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"flood": 500}, {"say": "done"})
    assert (await run.wait()).result == "done", await story(run)
    thoughts = await told(run, facts.AgentThinking)
    assert "".join(each.text for each in thoughts if not each.partial).count("flood ") == 500
    assert len(thoughts) < 150


async def test_a_message_longer_than_an_event_is_whole_in_several(sandbox: Sandbox) -> None:
    long = "".join(f"{number:07d}" for number in range(40_000))
    run = await sandbox.agent.start("acp", json.dumps([{"say": long}]), options=options())
    await run.wait()
    said = [each for each in await told(run, facts.AgentMessage) if not each.partial]
    assert "".join(each.text for each in said) == long
    assert not any(each.truncated for each in said)
