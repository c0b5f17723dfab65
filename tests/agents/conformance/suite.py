"""What every runtime promises, stated once. The modules beside this run it for each of them, side by side.

Some programs take seconds to start, so one run goes through as many scenes as it can.
"""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.errors import SandboxInvalidState
from contracts.events import agent as facts
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from infra.embedded import endpoint
from tests.agents.conformance.scenes import begin, fresh_marker, has_file, shape, story, told, until
from tests.agents.rig import Call, Crash, Rig, Say, Think, Turn, World
from tests.services.node import eventually

HEARS = "until [ -e {0} ]; do sleep 0.02; done"
BEAT = "while :; do date >{0}; sleep 0.02; done"
BEATING = "i=0; until [ -e go-2 ]; do i=$((i+1)); echo $i >beat; sleep 0.02; done"
DEAF = f"trap '' TERM INT; setsid sh -c '{BEAT.format('child')}' & {BEAT.format('own')}"

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


class Task(NamedTuple):
    marker: str
    run: AgentRun


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with rig.world(tmp_path_factory.mktemp(rig.name)) as world:
        yield world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(rig: Rig, world: World) -> Sandbox:
    return await rig.sandbox(world)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nobody_is_left(sandbox: Sandbox) -> AsyncIterator[None]:
    """What a failed test leaves open must not fail the others."""
    yield
    with contextlib.suppress(SandboxInvalidState):
        await sandbox.agent.stop("the test is over", wait=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def task(rig: Rig, sandbox: Sandbox) -> Task:
    """One that was done and that nothing disturbed."""
    marker = fresh_marker()
    steps = (
        Think("what would grow here"),
        Say("I will plant it."),
        Call("printf grown > leaf.txt"),
        Call("cat leaf.txt; echo; ls nowhere"),
        Call("echo watered"),
        Say("It has grown."),
    )
    run = await begin(rig, sandbox, steps, marker=marker)
    await run.wait()
    return Task(marker, run)


def asking(rig: Rig, pattern: str) -> TypedRule:
    return TypedRule(tool=rig.tool, pattern=pattern, verdict=Verdict.ASK, reason="it changes things")


async def test_every_step_of_a_task_is_on_the_record_and_its_files_change(
    rig: Rig, sandbox: Sandbox, task: Task
) -> None:
    run = task.run
    result = await run.wait()
    assert (result.outcome, result.reason) == ("completed", "done"), await story(run)
    assert "It has grown." in result.result
    texts = [each.text for each in await told(run, facts.AgentMessage) if not each.partial]
    assert [text.strip() for text in texts] == ["I will plant it.", "It has grown."]
    if rig.thinks:
        thoughts = [each.text for each in await told(run, facts.AgentThinking) if not each.partial]
        assert any("what would grow here" in each for each in thoughts)
    uses, results = await told(run, facts.AgentToolUse), await told(run, facts.AgentToolResult)
    assert [each.tool for each in uses] == [rig.tool] * 3
    assert [each.call for each in uses] == [each.call for each in results]
    assert "grown" in results[1].output
    assert (await sandbox.run("cat leaf.txt")).stdout == b"grown"
    assert (result.turns, result.tool_calls) == (1, 3) or result.turns > 1
    if rig.counts:
        assert result.tokens > 0
    started = [fact for fact in await story(run) if isinstance(fact, facts.AgentStarted)]
    assert len(started) == 1
    assert [type(fact) for fact in await story(run)].count(facts.AgentCompleted) == 1


async def test_a_run_that_is_kept_open_takes_turn_after_turn_and_is_paused_refused_interrupted_and_stopped(
    rig: Rig, sandbox: Sandbox
) -> None:
    refused = (Call("touch rejected.txt"), Call("touch denied.txt"), Say("a pity"))
    never = (Call(DEAF.replace("own", "own-2").replace("child", "child-2")), Say("never"))
    turns = ((Say("first"),), (Call(BEATING), Say("awake")), refused, (Call(DEAF), Say("never")), (Say("back"),), never)
    rules = [
        TypedRule(tool=rig.tool, pattern="*denied.txt*", verdict=Verdict.DENY, reason="never"),
        asking(rig, "*rejected.txt*"),
    ]
    marker = fresh_marker()
    run = await begin(rig, sandbox, *turns, marker=marker, keep_open=True, approvals=rules)
    await until(run, facts.AgentWaiting)
    scenes = (nothing_moves_in_a_pause, a_refused_call_is_not_made, an_interrupt_stops_the_whole_tree, it_goes_on)
    for number, scene in enumerate(scenes, start=2):
        await sandbox.agent.message(f"{marker} turn {number}")
        await scene(sandbox, run)
        await until(run, facts.AgentWaiting, count=number)
    assert [each.where for each in await told(run, facts.AgentDelivered)] == ["prompt"] * len(scenes)
    texts = [each.text.strip() for each in await told(run, facts.AgentMessage) if not each.partial]
    assert texts == ["first", "awake", "a pity", "back"]
    await sandbox.agent.message(f"{marker} the last turn")
    await a_stop_leaves_nothing_behind(sandbox, run)


async def nothing_moves_in_a_pause(sandbox: Sandbox, run: AgentRun) -> None:
    await has_file(sandbox, "beat")
    await sandbox.agent.pause("lunch", wait=True)
    before = (await sandbox.run("cat beat; sleep 0.3")).stdout
    assert (await sandbox.run("cat beat")).stdout == before
    await sandbox.agent.resume(wait=True)
    await sandbox.files.write("go-2", b"")
    assert [each.reason for each in await told(run, facts.AgentPaused)] == ["lunch"]
    assert len(await told(run, facts.AgentResumed)) == 1


async def a_refused_call_is_not_made(sandbox: Sandbox, run: AgentRun) -> None:
    asked = await until(run, facts.AgentApprovalRequested)
    await sandbox.agent.reject(asked.approval, reason="not today")
    await until(run, facts.AgentWaiting, count=3)
    rejected = await told(run, facts.AgentRejected)
    assert [(each.by, each.reason) for each in rejected] == [("user", "not today"), ("policy", "never")]
    assert (await sandbox.run("ls rejected.txt denied.txt")).stdout == b""
    assert [each.ok for each in await told(run, facts.AgentToolResult)] == [True, False, False]


async def an_interrupt_stops_the_whole_tree(sandbox: Sandbox, run: AgentRun) -> None:
    await has_file(sandbox, "own")
    await has_file(sandbox, "child")
    said = await sandbox.agent.interrupt("enough", wait=True)
    # What was killed in the middle of a write may still finish that one; whoever lives writes on and on.
    await sandbox.run("rm -f own child; sleep 0.3; rm -f own child; sleep 0.3")
    assert (await sandbox.run("ls own child | grep . && ps -ef f")).stdout == b"", await story(run)
    assert [(each.reason, each.order) for each in await told(run, facts.AgentInterrupted)] == [("enough", said.order)]


async def it_goes_on(_sandbox: Sandbox, run: AgentRun) -> None:
    await until(run, facts.AgentMessage, lambda each: not each.partial and each.text.strip() == "back")


async def a_stop_leaves_nothing_behind(sandbox: Sandbox, run: AgentRun) -> None:
    await has_file(sandbox, "child-2")
    await sandbox.agent.stop("enough", wait=True)
    assert [each.reason for each in await told(run, facts.AgentCompleted)] == ["stopped: enough"]
    await eventually_idle(sandbox)
    await sandbox.run("rm -f own-2 child-2; sleep 0.3")
    assert (await sandbox.run("ls own-2 child-2")).stdout == b""
    with pytest.raises(SandboxInvalidState):
        await sandbox.agent.message("is anybody there?")


async def test_a_run_lives_through_the_death_of_every_service_and_nothing_is_asked_done_or_told_twice(
    rig: Rig, world: World, sandbox: Sandbox, task: Task
) -> None:
    steps = (
        Think("of the worst"),
        Say("I begin."),
        Call("echo once >> granted.txt"),
        Call(HEARS.format("late-gate")),
        Call("echo again >> granted.txt"),
        Say("I end."),
    )
    run = await begin(rig, sandbox, steps, approvals=[asking(rig, "*once*")])
    asked = await until(run, facts.AgentApprovalRequested)
    assert (asked.tool, "granted.txt" in str(asked.input)) == (rig.tool, True)
    await everything_dies(world)
    (pending,) = await sandbox.agent.pending()
    assert pending.request.approval == asked.approval
    await sandbox.agent.approve(asked.approval, reason="fine")
    await until(run, facts.AgentToolUse, count=2)
    await world.node.restart("agent")
    await world.node.restart("agent")
    await sandbox.run("touch late-gate")
    assert (await run.wait()).outcome == "completed", await story(run)
    assert (await sandbox.run("cat granted.txt")).stdout == b"once\nagain\n"
    assert [(each.approval, each.reason) for each in await told(run, facts.AgentApproved)] == [(asked.approval, "fine")]
    leave = collections.Counter(["agent.approval_requested", "user.approve", "agent.approved"])
    disturbed, calm = await shape(run), await shape(task.run)
    assert disturbed == calm + leave, (disturbed, calm)


async def everything_dies(world: World) -> None:
    """The services and the server, by SIGKILL, and all of them come back."""
    for service in world.node.services.values():
        await service.kill()
    before = world.node.server.pid
    world.node.kill_server()
    await eventually(lambda: world.node.server.pid != before and endpoint.find(world.node.data) is not None)
    await asyncio.gather(*(service.start() for service in world.node.services.values()))


async def test_what_is_said_while_a_tool_runs_is_delivered_once_in_order_and_says_where(
    rig: Rig, sandbox: Sandbox
) -> None:
    marker = fresh_marker()
    first = (Call(HEARS.format("go-1")), Call("echo second"), Say("one"))
    run = await begin(rig, sandbox, first, (Say("two"),), marker=marker)
    await until(run, facts.AgentToolUse)
    said = [await sandbox.agent.message(f"{marker} a"), await sandbox.agent.guide(f"{marker} b")]
    assert {each.order for each in await sandbox.agent.queued()} <= {each.order for each in said}
    await sandbox.files.write("go-1", b"")
    assert (await run.wait()).outcome == "completed", await story(run)
    delivered = await told(run, facts.AgentDelivered)
    assert [(each.order, each.sequence) for each in delivered] == [(each.order, each.sequence) for each in said]
    assert {each.where for each in delivered} <= ({"tool_call", "turn"} if rig.before_tools else {"prompt", "turn"})
    calls = [each.call for each in await told(run, facts.AgentToolUse)]
    assert all(each.call in calls for each in delivered if each.where == "tool_call")
    assert await sandbox.agent.queued() == []


async def test_a_sandbox_that_is_recovered_has_its_conversation_go_on(rig: Rig, world: World) -> None:
    sandbox = await rig.sandbox(world)
    marker = fresh_marker()
    turns = ((Call("echo kept > kept.txt"), Call(HEARS.format("go-3")), Say("whole")), (Say("I was told."),))
    run = await begin(rig, sandbox, *turns, marker=marker)
    await until(run, facts.AgentToolUse, count=2)
    await sandbox.flush()
    await sandbox.recover(reason="struck by lightning")
    # A call that was not on record in the workspace by then may be made again.
    await sandbox.run("touch go-3")
    if rig.name == "script":
        # It may have come to its end by then.
        with contextlib.suppress(SandboxInvalidState):
            await sandbox.agent.message(f"{marker} go on")
    result = await run.wait()
    assert result.outcome == "completed", await story(run)
    assert (await sandbox.run("cat kept.txt")).stdout == b"kept\n"
    attempts = await told(run, facts.AgentAttached)
    if attempts:
        assert [each.attempt for each in attempts] == [1, 2]
        assert "struck by lightning" in attempts[1].reason
    await sandbox.remove()


async def test_tokens_beyond_the_budget_end_the_run_with_that_reason(rig: Rig, sandbox: Sandbox) -> None:
    if not rig.counts:
        pytest.skip("this runtime has no model behind it")
    steps: Turn = (Call("echo 1"), Call("echo 2"), Call("echo 3"), Call("echo 4"), Say("never"))
    run = await begin(rig, sandbox, steps, max_tokens=20)
    result = await run.wait()
    assert result.outcome == "completed", await story(run)
    assert result.reason.startswith("budget: "), result
    await eventually_idle(sandbox)


async def test_an_agent_that_crashes_ends_in_a_clear_error_and_a_later_run_goes_on_with_an_earlier_conversation(
    rig: Rig, sandbox: Sandbox, task: Task
) -> None:
    run = await begin(rig, sandbox, (Say("goodbye"), Crash()))
    result = await run.wait()
    assert result.outcome == "error", await story(run)
    assert result.failure is not None
    assert result.failure.code == "AGENT_FAILED"
    assert (await sandbox.run("echo fine")).stdout == b"fine\n"
    later = await begin(rig, sandbox, (Say("the oak it was"),), marker=task.marker, resume=task.run.id)
    result = await later.wait()
    assert result.outcome == "completed", await story(later)
    assert "the oak it was" in result.result
    (started,) = await told(later, facts.AgentStarted)
    assert started.resumed == task.run.id


async def eventually_idle(sandbox: Sandbox) -> None:
    async with asyncio.timeout(30):
        while await sandbox.running():
            await asyncio.sleep(0.02)
