"""Runs of an ACP agent in a real sandbox: what it says and does on the record, steered while it runs."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts import codec
from contracts.errors import Invalid
from contracts.events import agent as facts
from contracts.events.command import CommandInput
from contracts.payload import unpack
from infra.client import Cloche, Sandbox
from tests.agents.acp.player import ASK, PROGRAM, options, play, sandbox_with_agent, story, told, until, whole_messages
from tests.agents.node import AgentNode, agent_node_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentNode]:
    async with agent_node_in(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: AgentNode) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(cloche: Cloche) -> Sandbox:
    return await sandbox_with_agent(cloche)


async def test_everything_an_agent_says_and_does_is_on_the_record_in_order(sandbox: Sandbox) -> None:
    call = {"id": "c1", "title": "make it", "kind": "execute", "input": {"command": "make"}, "output": "made"}
    run = await play(
        sandbox,
        {"think": "let me see"},
        {"say": "I begin."},
        {"tool": call},
        {"tool": {"id": "c2", "kind": "edit", "input": {"path": "x"}, "ok": False, "output": "no"}},
        {"plan": ["first", "second"]},
        {"cost": 0.25},
        {"usage": {"inputTokens": 10, "outputTokens": 5, "thoughtTokens": 2, "totalTokens": 17}},
        {"say": "Done."},
    )
    result = await run.wait()
    assert (result.outcome, result.reason, result.result) == ("completed", "done", "Done."), await story(run)
    assert (result.cost_usd, result.tokens, result.turns, result.tool_calls) == (0.25, 17, 1, 2)
    said = [
        fact
        for fact in await story(run)
        if isinstance(fact, facts.AgentThinking | facts.AgentMessage | facts.AgentToolUse | facts.AgentToolResult)
        and not getattr(fact, "partial", False)
    ]
    shown = [getattr(fact, "text", None) or getattr(fact, "call", None) for fact in said]
    plan = "- first (pending)\n- second (pending)"
    assert shown == ["let me see", "I begin.", "c1", "c1", "c2", "c2", plan, "Done."]
    uses, results = await told(run, facts.AgentToolUse), await told(run, facts.AgentToolResult)
    assert uses[0].tool == "execute"
    assert uses[0].input == {"title": "make it", "command": "make"}
    assert [(each.ok, each.output) for each in results] == [(True, "made"), (False, "no")]


async def test_a_message_said_during_a_turn_begins_the_next_one(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"say": "working"}, {"await": "go-1"}, {"say": "worked"})
    await until(run, facts.AgentMessage)
    said = await sandbox.agent.message("and then?")
    await sandbox.agent.guide("be brief")
    assert [each.text for each in await sandbox.agent.queued()] == ["and then?", "be brief"]
    await sandbox.files.write("/workspace/go-1", b"")
    result = await run.wait()
    assert result.result == "heard: and then?\n\n[USER] be brief"
    delivered = await told(run, facts.AgentDelivered)
    assert (delivered[0].order, delivered[0].where) == (said.order, "prompt")
    assert len(delivered) == 2


async def test_an_agent_that_does_not_obey_an_interrupt_is_killed_with_all_it_started(sandbox: Sandbox) -> None:
    shell = "trap '' TERM; echo $$ > pid-2; while :; do sleep 0.1; done"
    run = await play(
        sandbox, {"run": {"id": "long", "shell": shell, "kill": False}}, manners={"deaf": True}, keep_open=True
    )
    await until(run, facts.AgentToolUse)
    while not (await sandbox.run("cat pid-2")).stdout.strip():
        await asyncio.sleep(0.02)
    await sandbox.agent.interrupt("enough", wait=True)
    assert (await sandbox.run("kill -0 $(cat pid-2)")).exit_code != 0
    result = await run.wait()
    assert result.failure is not None
    assert result.failure.details["reason"] == "hang"
    assert len(await told(run, facts.AgentInterrupted)) == 1


async def test_a_tool_that_needs_leave_waits_for_it_and_runs_once(sandbox: Sandbox) -> None:
    call = {"kind": "execute", "input": {"command": "rm -r /"}, "file": "granted"}
    run = await play(sandbox, {"ask": {"id": "a", **call}}, {"ask": {"id": "b", **call}}, approvals=ASK)
    first = await until(run, facts.AgentApprovalRequested)
    assert (first.tool, first.call, first.input["command"]) == ("execute", "a", "rm -r /")
    assert [each.request.approval for each in await sandbox.agent.pending()] == [first.approval]
    await sandbox.agent.approve(first.approval)
    second = await until(run, facts.AgentApprovalRequested, lambda asked: asked.call == "b")
    await sandbox.agent.reject(second.approval, reason="no")
    await run.wait()
    assert [each.ok for each in await told(run, facts.AgentToolResult)] == [True, False]
    assert (await sandbox.files.read("/workspace/granted")).content == "a\n"


async def test_an_interrupt_while_leave_is_asked_for_takes_the_question_back(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"ask": {"id": "a", "file": "never"}}, {"say": "never"}, approvals=ASK)
    await until(run, facts.AgentApprovalRequested)
    await sandbox.agent.interrupt("enough", wait=True)
    await sandbox.agent.message("go on")
    assert (await run.wait()).result == "heard: go on"
    assert (await sandbox.run("cat never")).exit_code != 0


async def test_a_budget_in_money_stops_a_turn_that_goes_on(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"cost": 0.5}, {"cost": 1.5}, {"await": "never-there"}, max_budget_usd=1.0)
    result = await run.wait()
    assert result.reason.startswith("budget: 1.5")
    assert result.cost_usd == 1.5


async def test_a_later_run_goes_on_with_the_session_of_an_earlier_one(sandbox: Sandbox) -> None:
    as_typed = {"command": f"python3 {PROGRAM}"}
    earlier = await sandbox.agent.start("acp", "remember the blue door", options=as_typed)
    await earlier.wait()
    later = await play(sandbox, {"recall": True}, resume=earlier.id)
    assert "remember the blue door" in (await later.wait()).result
    assert len(await whole_messages(later)) == 1


async def test_what_a_session_has_cost_in_an_earlier_run_is_not_counted_again(sandbox: Sandbox) -> None:
    earlier = await play(sandbox, {"cost": 0.5})
    assert (await earlier.wait()).cost_usd == 0.5
    between = await play(sandbox, {"say": "nothing spent"}, resume=earlier.id)
    assert (await between.wait()).cost_usd == 0
    later = await play(sandbox, {"cost": 0.75}, {"cost": 1.0}, resume=between.id, max_budget_usd=0.75)
    result = await later.wait()
    assert (result.reason, result.cost_usd) == ("done", 0.5)


async def test_every_line_that_an_agent_is_told_is_made_of_what_is_on_record(sandbox: Sandbox) -> None:
    """So another life of the service says the same line, and it is said once."""
    earlier = await sandbox.agent.start("acp", "remember the green door", options=options())
    await earlier.wait()
    run = await sandbox.agent.start("acp", "first", options=options(load=False), resume=earlier.id, keep_open=True)
    await until(run, facts.AgentWaiting)
    await sandbox.agent.message("second")
    await until(run, facts.AgentDelivered)
    await sandbox.agent.stop(wait=True)
    kept = {each.path: each.data or "" for each in await told(run, facts.AgentTranscript)}
    process = (await told(run, facts.AgentAttached))[0].process
    session = json.loads(kept[f"session/{process}"])["name"]
    assert await prompts_of(sandbox, process) == [
        {"sessionId": session, "prompt": [{"type": "text", "text": f"{kept['past']}\n\nfirst"}]},
        {"sessionId": session, "prompt": [{"type": "text", "text": "second"}]},
    ]


async def prompts_of(sandbox: Sandbox, process: str) -> list[object]:
    """As they are on record, all of what they say."""
    said = [codec.decode_fact(event.head) async for event in sandbox.events(types=["command.input"])]
    inputs = [
        unpack(each.data, each.encoding) for each in said if isinstance(each, CommandInput) and each.exec == process
    ]
    messages = [json.loads(line) for line in b"".join(inputs).splitlines()]
    return [message["params"] for message in messages if message.get("method") == "session/prompt"]


@pytest.mark.parametrize("manners", [{"load": False}, {"at": {"session/load": [{"fail": "lost"}]}}])
async def test_an_agent_that_cannot_load_a_session_is_told_the_story_so_far(sandbox: Sandbox, manners: object) -> None:
    earlier = await sandbox.agent.start("acp", "remember the red door", options=options())
    await earlier.wait()
    later = await sandbox.agent.start("acp", "and now?", options=options(**manners), resume=earlier.id)  # type: ignore[arg-type]
    result = (await later.wait()).result
    assert "You were asked: remember the red door\nYou said: heard: remember the red door" in result
    assert result.endswith("and now?")


async def test_a_model_and_a_mode_are_chosen_where_the_agent_offers_them(sandbox: Sandbox) -> None:
    offers = {"offers": {"model": ["small", "large"], "mode": ["plan", "work"]}}
    chosen = {**options(**offers), "mode": "work"}
    run = await sandbox.agent.start("acp", '[{"chosen": true}]', model="large", options=chosen)
    assert json.loads((await run.wait()).result) == {"model": "large", "mode": "work"}
    for manners in ({}, offers):
        run = await sandbox.agent.start("acp", "hello", model="huge", options=options(**manners))
        result = await run.wait()
        assert result.failure is not None
        assert result.failure.details["reason"] == "refused"
        assert "model" in result.failure.message or "huge" in result.failure.message


async def test_options_that_cannot_be_right_are_refused_before_anything_is_begun(sandbox: Sandbox) -> None:
    with pytest.raises(Invalid, match="command"):
        await sandbox.agent.start("acp", "hello", options={})
    with pytest.raises(Invalid, match="quotation"):
        await sandbox.agent.start("acp", "hello", options={"command": "python3 'agent"})
    with pytest.raises(Invalid, match="unknown"):
        await sandbox.agent.start("acp", "hello", options={**options(), "unknown": 1})


async def test_what_the_client_does_not_offer_is_refused_and_the_agent_goes_on(sandbox: Sandbox) -> None:
    wanted = {"sessionId": "x", "path": "/etc/passwd"}
    run = await play(sandbox, {"request": ["fs/read_text_file", wanted]}, {"say": "Still here."})
    result = await run.wait()
    assert "-32601" in result.result
    assert result.result.endswith("Still here.")


async def test_a_service_that_dies_at_every_turn_of_a_run_loses_and_doubles_nothing(
    node: AgentNode, sandbox: Sandbox
) -> None:
    steps = (
        {"say": "one"},
        {"ask": {"id": "a", "file": "every"}},
        {"tool": {"id": "b"}},
        {"await": "go-3"},
        {"say": "two"},
    )
    run = await play(sandbox, *steps, approvals=ASK)
    await until(run, facts.AgentAttached)
    await node.restart("agent")
    asked = await until(run, facts.AgentApprovalRequested)
    approving = asyncio.create_task(sandbox.agent.approve(asked.approval))
    await until(run, facts.UserApprove)
    await node.restart("agent")
    await approving
    await until(run, facts.AgentToolUse, lambda use: use.call == "b")
    await sandbox.agent.message("three")
    await node.services["agent"].kill()
    await sandbox.files.write("/workspace/go-3", b"")
    await node.services["agent"].start()
    await until(run, facts.AgentDelivered)
    await node.restart("agent")
    result = await run.wait()
    assert (result.result, result.turns, result.tool_calls) == ("heard: three", 2, 2), await story(run)
    assert await whole_messages(run) == ["one", "two", "heard: three"]
    assert [each.call for each in await told(run, facts.AgentToolResult)] == ["a", "b"]
    assert (await sandbox.files.read("/workspace/every")).content == "a\n"
    for once in (facts.AgentAttached, facts.AgentApprovalRequested, facts.AgentApproved, facts.AgentDelivered):
        assert len(await told(run, once)) == 1


async def test_an_interrupt_that_nobody_was_there_to_hear_is_obeyed_by_the_next_service(
    node: AgentNode, sandbox: Sandbox
) -> None:
    run = await sandbox.agent.start("acp", "first", options=options(), keep_open=True)
    await until(run, facts.AgentWaiting)
    await sandbox.agent.message(json.dumps([{"run": {"id": "long", "shell": "sleep 1000"}}]))
    await until(run, facts.AgentToolUse)
    await node.services["agent"].kill()
    interrupting = asyncio.create_task(sandbox.agent.interrupt("enough", wait=True))
    await node.services["agent"].start()
    await interrupting
    assert (await sandbox.run("pgrep -x sleep")).stdout == b""
    await until(run, facts.AgentToolResult)
    await sandbox.agent.stop(wait=True)


async def test_an_agent_that_leaves_after_its_turn_has_done_its_work(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"say": "bye"}, manners={"leaves": True})
    assert (await run.wait()).result == "bye"
    run = await play(sandbox, {"say": "bye"}, manners={"leaves": True}, keep_open=True)
    await until(run, facts.AgentWaiting)
    await sandbox.agent.message("are you there?")
    result = await run.wait()
    assert result.failure is not None
    assert result.failure.details["reason"] == "ended"


async def test_a_program_that_is_ended_with_its_run_has_done_its_work_whoever_sees_it(
    node: AgentNode, sandbox: Sandbox
) -> None:
    run = await play(sandbox, {"say": "done"}, manners={"stays": True})
    await until(run, facts.AgentClosing)
    await node.services["agent"].kill()
    program = sandbox.execution((await told(run, facts.AgentAttached))[0].process)
    await program.signal(9)
    await program.wait()
    await node.services["agent"].start()
    result = await run.wait()
    assert (result.outcome, result.result) == ("completed", "done"), await story(run)


async def test_the_program_does_not_outlive_its_run(sandbox: Sandbox) -> None:
    run = await play(sandbox, {"fork": 2}, {"say": "forked"})
    await run.wait()
    process = (await told(run, facts.AgentAttached))[0].process
    ended = await sandbox.execution(process).wait()
    assert ended.outcome in ("completed", "cancelled")
