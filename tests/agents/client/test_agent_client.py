"""Agents as a program outside has them: begun, followed, spoken to, by the log alone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from contracts import subjects
from contracts.agents import ApprovalRule, Verdict
from contracts.errors import Invalid, RuntimeMissing, SandboxInvalidState
from contracts.events import agent as facts
from contracts.runs import RunStatus
from infra.bus import reader
from infra.bus.publisher import append
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from tests.agents.rig import World
from tests.agents.scripted.playing import begin
from tests.agents.scripted.rig import ScriptRig

pytestmark = [pytest.mark.asyncio(loop_scope="module")]
PATIENCE_S = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with ScriptRig().world(tmp_path_factory.mktemp("client")) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(world: World) -> Sandbox:
    return await world.cloche.create()


async def until(run: AgentRun, kind: type[Any]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        async for event in run.events(follow=True):
            if isinstance(event.fact, kind):
                return event.fact
    raise AssertionError(f"the run ended without {kind.__name__}")


async def test_a_run_is_waited_for_and_told_again_to_whoever_comes_late(sandbox: Sandbox) -> None:
    script = [
        {"say": "hello"},
        {"run": "true"},
        {"spend": {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.5}},
        {"say": "bye"},
    ]
    run = await begin(sandbox, script)
    result = await run.wait()
    assert (result.outcome, result.reason, result.result, result.failure) == ("completed", "done", "bye", None)
    assert (result.cost_usd, result.tokens, result.turns, result.tool_calls) == (0.5, 10, 1, 1)
    assert result.duration_ms > 0
    late = await sandbox.agent.run()
    assert (late.id, late.started.prompt, await late.wait()) == (run.id, "play", result)
    assert await late.last_words() == "bye"
    (state,) = await sandbox.agent.runs()
    assert (state, state.status) == (await late.state(), RunStatus.COMPLETED)


async def test_a_run_that_fails_is_a_result_too(sandbox: Sandbox) -> None:
    result = await (await begin(sandbox, [{"fail": "no more"}])).wait()
    assert result.outcome == "error"
    assert result.failure is not None
    assert result.reason == result.failure.message
    assert "no more" in result.reason


async def test_a_refusal_is_raised_with_its_reason(sandbox: Sandbox) -> None:
    with pytest.raises(RuntimeMissing, match=r"one of .*script"):
        await sandbox.agent.start("nonesuch", "go")
    with pytest.raises(Invalid):
        await begin(sandbox, [{"dance": True}])
    with pytest.raises(Invalid, match="no earlier run"):
        await begin(sandbox, [{"say": "x"}], resume="run-0")
    with pytest.raises(SandboxInvalidState, match="no run is open"):
        await sandbox.agent.message("anybody?")
    with pytest.raises(Invalid, match="no agent has run"):
        await sandbox.agent.run()
    run = await begin(sandbox, [{"wait": {"message": True}}])
    with pytest.raises(SandboxInvalidState, match=run.id):
        await begin(sandbox, [{"say": "x"}])
    with pytest.raises(SandboxInvalidState, match="run-0"):
        await sandbox.agent.message("you there", run="run-0")
    with pytest.raises(Invalid, match="there is no run"):
        await sandbox.agent.run("run-0")
    await sandbox.agent.stop(wait=True)


async def test_the_same_id_again_is_the_same_run_and_the_same_message(sandbox: Sandbox) -> None:
    script = [{"wait": {"message": True}}]
    first = await begin(sandbox, script, id="run-mine", keep_open=True)
    again = await begin(sandbox, script, id="run-mine", keep_open=True)
    assert (first.id, first.first_sequence) == (again.id, again.first_sequence)
    said = await sandbox.agent.message("once", id="c-mine")
    assert await sandbox.agent.message("once", id="c-mine") == said
    await sandbox.agent.stop(wait=True)
    told = [event.fact async for event in first.events()]
    assert sum(isinstance(fact, facts.UserMessage) for fact in told) == 1


async def test_what_is_said_is_queued_until_it_is_delivered(sandbox: Sandbox) -> None:
    run = await begin(sandbox, [{"run": "until test -e go; do sleep 0.05; done"}, {"run": "true"}])
    await until(run, facts.AgentToolUse)
    said = [await sandbox.agent.message("one"), await sandbox.agent.guide("two")]
    assert [(each.order, each.kind, each.text) for each in await sandbox.agent.queued()] == [
        (said[0].order, "message", "one"),
        (said[1].order, "guidance", "two"),
    ]
    assert [each.run for each in said] == [run.id, run.id]
    await sandbox.run("touch go")
    assert (await run.wait()).outcome == "completed"
    assert await sandbox.agent.queued() == []


async def test_an_interrupt_a_pause_and_a_stop_are_waited_for(sandbox: Sandbox) -> None:
    run = await begin(sandbox, [{"run": "sleep 300"}], keep_open=True)
    await until(run, facts.AgentToolUse)
    async with asyncio.timeout(PATIENCE_S):
        await sandbox.agent.pause("lunch", wait=True)
        await sandbox.agent.pause("still", wait=True)
        assert (await run.state()).status == RunStatus.PAUSED
        await sandbox.agent.resume(wait=True)
        await sandbox.agent.resume(wait=True)
        assert (await run.state()).status == RunStatus.RUNNING
        interrupt = await sandbox.agent.interrupt("enough", wait=True)
        told = [event.fact async for event in run.events()]
        assert facts.AgentInterrupted(run=run.id, reason="enough", order=interrupt.order) in told
        await sandbox.agent.stop("home", wait=True)
    result = await run.wait()
    assert (result.outcome, result.reason) == ("completed", "stopped: home")


ASKS = (ApprovalRule(tool="run", pattern="touch *", verdict=Verdict.ASK),)


async def test_what_waits_for_leave_is_listed_and_answered(sandbox: Sandbox) -> None:
    steps = [{"run": "touch one"}, {"run": "touch two"}]
    run = await begin(sandbox, steps, approvals=ASKS)
    await until(run, facts.AgentApprovalRequested)
    (asked,) = await sandbox.agent.pending()
    assert (asked.run, asked.request.tool, asked.request.input["command"]) == (run.id, "run", "touch one")
    await sandbox.agent.reject(asked.request.approval, reason="not that one")
    with pytest.raises(Invalid, match=r"answered already|is pending"):
        await sandbox.agent.approve(asked.request.approval)
    async with asyncio.timeout(PATIENCE_S):
        while not (pending := await sandbox.agent.pending()):
            await asyncio.sleep(0.01)
    await sandbox.agent.approve(pending[0].request.approval)
    assert (await run.wait()).outcome == "completed"
    assert await sandbox.agent.pending() == []
    assert (await sandbox.run("ls")).stdout == b"two\n"


async def test_what_nobody_can_read_is_passed_over(world: World, sandbox: Sandbox) -> None:
    run = await begin(sandbox, [{"run": "touch x"}, {"wait": {"message": True}}], approvals=ASKS)
    asked = await until(run, facts.AgentApprovalRequested)
    started = subjects.event(sandbox.id, "agent.started", run.id)
    (whole,) = [entry async for entry in reader.read(world.cloche.bus, [started], run.first_sequence, follow=False)]
    deep = b"[" * 100_000 + b"]" * 100_000
    unreadable = {
        "agent.message": b"no event",
        "agent.tool_use": b'{"data":%b}' % deep,
        "agent.approval_requested": whole.data.replace(b'"data":{', b'"data":{"input":%b,' % deep),
        "user.message": whole.data.replace(b'"agent.started"', b'"user.message"').replace(b'"run"', b'"ran"'),
    }
    async with await world.node.server.connect("agent") as bus:
        for kind, raw in unreadable.items():
            await append(bus, subjects.event(sandbox.id, kind, run.id), raw, f"{run.id}.unreadable.{kind}")
    assert [each.request.approval for each in await sandbox.agent.pending()] == [asked.approval]
    await sandbox.agent.approve(asked.approval)
    said = await sandbox.agent.message("done")
    (state,) = await sandbox.agent.runs()
    assert (state.run, state.prompt) == (run.id, "play")
    assert (await run.wait()).outcome == "completed"
    assert said.order not in [each.order for each in await sandbox.agent.queued()]
    assert await run.last_words() == ""


async def test_the_read_model_has_the_runs_of_a_sandbox(world: World, sandbox: Sandbox) -> None:
    run = await begin(sandbox, [{"run": "touch x"}], approvals=ASKS, prompt="grow")
    await until(run, facts.AgentApprovalRequested)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            states = {state.sandbox: state for state in (await world.cloche.sandboxes()).sandboxes}
            found = states[sandbox.id].runs
            if found and found[-1].pending:
                break
            await asyncio.sleep(0.02)
    assert (found[-1].run, found[-1].prompt, found[-1].pending[0].subject) == (run.id, "grow", "touch x")
    await sandbox.agent.stop(wait=True)
