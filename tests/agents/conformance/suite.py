"""What every runtime promises, stated once. The modules beside this run it for each of them, side by side."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.errors import SandboxInvalidState
from contracts.events import agent as facts
from infra.client import Sandbox
from infra.embedded import endpoint
from tests.agents.conformance.scenes import begin, fresh_marker, has_file, shape, story, told, until
from tests.agents.rig import Call, Crash, Rig, Say, Think, Turn, World
from tests.services.node import eventually

HEARS = "until [ -e {0} ]; do sleep 0.02; done"
BEAT = "while :; do date >{0}; sleep 0.02; done"
DEAF = f"trap '' TERM INT; setsid sh -c '{BEAT.format('child')}' & {BEAT.format('own')}"

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


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


def asking(rig: Rig) -> TypedRule:
    return TypedRule(tool=rig.tool, verdict=Verdict.ASK, reason="it changes things")


async def test_every_step_of_a_task_is_on_the_record_and_its_files_change(rig: Rig, sandbox: Sandbox) -> None:
    steps = (
        Think("what would grow here"),
        Say("I will plant it."),
        Call("printf grown > leaf.txt"),
        Call("cat leaf.txt; echo; ls nowhere"),
        Say("It has grown."),
    )
    run = await begin(rig, sandbox, steps)
    result = await run.wait()
    assert (result.outcome, result.reason) == ("completed", "done"), await story(run)
    assert "It has grown." in result.result
    texts = [each.text for each in await told(run, facts.AgentMessage) if not each.partial]
    assert [text.strip() for text in texts] == ["I will plant it.", "It has grown."]
    if rig.thinks:
        thoughts = [each.text for each in await told(run, facts.AgentThinking) if not each.partial]
        assert any("what would grow here" in each for each in thoughts)
    uses, results = await told(run, facts.AgentToolUse), await told(run, facts.AgentToolResult)
    assert [each.tool for each in uses] == [rig.tool, rig.tool]
    assert [each.call for each in uses] == [each.call for each in results]
    assert "grown" in results[1].output
    assert (await sandbox.run("cat leaf.txt")).stdout == b"grown"
    assert (result.turns, result.tool_calls) == (1, 2) or result.turns > 1
    if rig.counts:
        assert result.tokens > 0
    started = [fact for fact in await story(run) if isinstance(fact, facts.AgentStarted)]
    assert len(started) == 1
    assert [type(fact) for fact in await story(run)].count(facts.AgentCompleted) == 1


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


async def test_an_interrupt_stops_the_whole_tree_of_a_tool_call_and_the_talk_goes_on(
    rig: Rig, sandbox: Sandbox
) -> None:
    marker = fresh_marker()
    run = await begin(rig, sandbox, (Call(DEAF), Say("never")), (Say("I am back."),), marker=marker)
    await has_file(sandbox, "own")
    await has_file(sandbox, "child")
    said = await sandbox.agent.interrupt("enough", wait=True)
    await sandbox.run("rm -f own child")
    await sandbox.run("sleep 0.3")
    assert (await sandbox.run("ls own child")).stdout == b""
    assert [(each.reason, each.order) for each in await told(run, facts.AgentInterrupted)] == [("enough", said.order)]
    await until(run, facts.AgentWaiting)
    await sandbox.agent.message(f"{marker} go on")
    result = await run.wait()
    assert result.outcome == "completed", await story(run)
    assert "I am back." in result.result


async def test_a_call_that_is_asked_for_waits_through_the_death_of_every_service_and_runs_once(
    rig: Rig, world: World, sandbox: Sandbox
) -> None:
    run = await begin(rig, sandbox, (Call("echo once >> granted.txt"), Say("thanks")), approvals=[asking(rig)])
    asked = await until(run, facts.AgentApprovalRequested)
    assert (asked.tool, "granted.txt" in str(asked.input)) == (rig.tool, True)
    for name in world.node.services:
        await world.node.services[name].kill()
    before = world.node.server.pid
    world.node.kill_server()
    await eventually(lambda: world.node.server.pid != before and endpoint.find(world.node.data) is not None)
    await asyncio.gather(*(service.start() for service in world.node.services.values()))
    (pending,) = await sandbox.agent.pending()
    assert pending.request.approval == asked.approval
    await sandbox.agent.approve(asked.approval, reason="fine")
    assert (await run.wait()).outcome == "completed", await story(run)
    assert (await sandbox.run("cat granted.txt")).stdout == b"once\n"
    assert len(await told(run, facts.AgentApprovalRequested)) == 1
    assert [(each.approval, each.reason) for each in await told(run, facts.AgentApproved)] == [(asked.approval, "fine")]
    assert len(await told(run, facts.AgentToolResult)) == 1


async def test_a_rejected_or_denied_call_is_not_made(rig: Rig, sandbox: Sandbox) -> None:
    steps = (Call("touch rejected.txt"), Call("touch denied.txt"), Say("a pity"))
    rules = [TypedRule(tool=rig.tool, pattern="*denied.txt*", verdict=Verdict.DENY, reason="never"), asking(rig)]
    run = await begin(rig, sandbox, steps, approvals=rules)
    asked = await until(run, facts.AgentApprovalRequested)
    await sandbox.agent.reject(asked.approval, reason="not today")
    result = await run.wait()
    assert result.outcome == "completed", await story(run)
    rejected = await told(run, facts.AgentRejected)
    assert [(each.by, each.reason) for each in rejected] == [("user", "not today"), ("policy", "never")]
    assert (await sandbox.run("ls rejected.txt denied.txt")).stdout == b""
    assert not any(each.ok for each in await told(run, facts.AgentToolResult))


async def test_nothing_moves_while_a_run_is_paused(rig: Rig, sandbox: Sandbox) -> None:
    work = f"i=0; {HEARS.format('go-2').replace('sleep', 'i=$((i+1)); echo $i >beat; sleep')}"
    run = await begin(rig, sandbox, (Call(work), Say("awake")))
    await has_file(sandbox, "beat")
    await sandbox.agent.pause("lunch", wait=True)
    before = (await sandbox.run("cat beat; sleep 0.3")).stdout
    assert (await sandbox.run("cat beat")).stdout == before
    await sandbox.agent.resume(wait=True)
    await sandbox.files.write("go-2", b"")
    assert (await run.wait()).outcome == "completed", await story(run)
    assert [each.reason for each in await told(run, facts.AgentPaused)] == ["lunch"]
    assert len(await told(run, facts.AgentResumed)) == 1


async def test_a_run_that_is_stopped_leaves_nothing_behind(rig: Rig, sandbox: Sandbox) -> None:
    run = await begin(rig, sandbox, (Call(DEAF.replace("own", "own-2").replace("child", "child-2")), Say("never")))
    await has_file(sandbox, "child-2")
    await sandbox.agent.stop("enough", wait=True)
    assert [each.reason for each in await told(run, facts.AgentCompleted)] == ["stopped: enough"]
    async with asyncio.timeout(30):
        while await sandbox.running():
            await asyncio.sleep(0.02)
    await sandbox.run("rm -f own-2 child-2; sleep 0.3")
    assert (await sandbox.run("ls own-2 child-2")).stdout == b""
    with pytest.raises(SandboxInvalidState):
        await sandbox.agent.message("is anybody there?")


async def test_a_killed_service_finds_its_run_again_and_tells_nothing_twice(
    rig: Rig, world: World, sandbox: Sandbox
) -> None:
    def steps(gate: str) -> Turn:
        return (
            Say("begin"),
            Call("echo a >> steps.txt"),
            Call(HEARS.format(gate)),
            Call("echo b >> steps.txt"),
            Say("end"),
        )

    await sandbox.run("touch open-gate")
    calm = await begin(rig, sandbox, steps("open-gate"))
    assert (await calm.wait()).outcome == "completed", await story(calm)
    disturbed = await begin(rig, sandbox, steps("late-gate"))
    await until(disturbed, facts.AgentToolUse, count=2)
    await world.node.restart("agent")
    await world.node.restart("agent")
    await sandbox.run("touch late-gate")
    assert (await disturbed.wait()).outcome == "completed", await story(disturbed)
    assert await shape(disturbed) == await shape(calm)
    assert (await sandbox.run("cat steps.txt")).stdout == b"a\nb\na\nb\n"


async def test_a_run_that_is_kept_open_takes_turn_after_turn(rig: Rig, sandbox: Sandbox) -> None:
    marker = fresh_marker()
    run = await begin(
        rig, sandbox, (Say("first"),), (Call("echo x > turn-2"), Say("second")), marker=marker, keep_open=True
    )
    await until(run, facts.AgentWaiting)
    await sandbox.agent.message(f"{marker} next")
    await until(run, facts.AgentWaiting, count=2)
    texts = [each.text.strip() for each in await told(run, facts.AgentMessage) if not each.partial]
    assert texts == ["first", "second"]
    assert [each.where for each in await told(run, facts.AgentDelivered)] == ["prompt"]
    await sandbox.agent.stop(wait=True)


async def test_a_later_run_goes_on_with_the_conversation_of_an_earlier_one(rig: Rig, sandbox: Sandbox) -> None:
    marker = fresh_marker()
    first = await begin(rig, sandbox, (Say("remember the oak"),), marker=marker)
    assert (await first.wait()).outcome == "completed", await story(first)
    second = await begin(rig, sandbox, (Say("the oak it was"),), marker=marker, resume=first.id)
    result = await second.wait()
    assert result.outcome == "completed", await story(second)
    assert "the oak it was" in result.result
    (started,) = await told(second, facts.AgentStarted)
    assert started.resumed == first.id


async def test_a_sandbox_that_is_recovered_has_its_conversation_go_on(rig: Rig, world: World) -> None:
    sandbox = await rig.sandbox(world)
    marker = fresh_marker()
    turns = ((Call("echo kept > kept.txt"), Call(HEARS.format("go-3")), Say("whole")), (Say("I was told."),))
    run = await begin(rig, sandbox, *turns, marker=marker)
    await until(run, facts.AgentToolUse, count=2)
    await sandbox.flush()
    await sandbox.recover(reason="struck by lightning")
    if rig.name == "script":
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


async def test_an_agent_that_crashes_ends_in_a_clear_error_and_the_sandbox_works_on(rig: Rig, sandbox: Sandbox) -> None:
    run = await begin(rig, sandbox, (Say("goodbye"), Crash()))
    result = await run.wait()
    assert result.outcome == "error", await story(run)
    assert result.failure is not None
    assert result.failure.code == "AGENT_FAILED"
    assert (await sandbox.run("echo fine")).stdout == b"fine\n"
    again = await begin(rig, sandbox, (Say("a new start"),))
    assert (await again.wait()).outcome == "completed", await story(again)


async def eventually_idle(sandbox: Sandbox) -> None:
    async with asyncio.timeout(30):
        while await sandbox.running():
            await asyncio.sleep(0.02)
