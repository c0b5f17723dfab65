"""Orders that cannot be obeyed are told so, at once and for good; orders that come twice are obeyed once."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.commands import agent as orders
from contracts.errors import Invalid, RuntimeMissing, SandboxInvalidState, SandboxNotFound
from contracts.events import agent as facts
from infra.client import Cloche, Sandbox
from infra.client.orders import publish
from infra.ids import new_id
from tests.agents.conformance.scenes import begin, fresh_marker, has_file, story, told, until
from tests.agents.node import AgentNode, agent_node_in
from tests.agents.rig import Call, Say
from tests.agents.scripted.rig import make_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
RIG = make_rig()
WAITS = Call("until [ -e go ]; do sleep 0.02; done")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentNode]:
    async with agent_node_in(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cloche(node: AgentNode) -> AsyncIterator[Cloche]:
    async with node.connect() as cloche:
        yield cloche


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(cloche: Cloche) -> AsyncIterator[Sandbox]:
    sandbox = await cloche.create()
    yield sandbox
    await sandbox.remove()


async def test_a_second_run_in_the_same_sandbox_is_refused_and_names_the_first(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (WAITS, Say("done")))
    with pytest.raises(SandboxInvalidState, match=run.id):
        await begin(RIG, sandbox, (Say("me too"),))
    await sandbox.agent.stop(wait=True)


async def test_a_start_that_comes_twice_is_one_run(sandbox: Sandbox) -> None:
    name = new_id("run")
    first = await begin(RIG, sandbox, (Say("once"),), id=name)
    second = await begin(RIG, sandbox, (Say("once"),), id=name)
    assert (await first.wait()).outcome == (await second.wait()).outcome == "completed"
    assert len(await told(first, facts.AgentStarted)) == len(await told(first, facts.AgentMessage)) == 1


async def test_a_runtime_that_is_not_there_is_named_with_those_that_are(sandbox: Sandbox) -> None:
    with pytest.raises(RuntimeMissing, match="acp, claude, openhands, script"):
        await sandbox.agent.start("ghost", "hello")


async def test_an_answer_to_nothing_and_a_second_answer_are_refused(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (Call("true"), Say("done")), approvals=[TypedRule(verdict=Verdict.ASK)])
    asked = await until(run, facts.AgentApprovalRequested)
    with pytest.raises(Invalid, match="no approval"):
        await sandbox.agent.approve("ap-of-nobody")
    await sandbox.agent.pause(wait=True)
    await sandbox.agent.approve(asked.approval)
    with pytest.raises((Invalid, SandboxInvalidState)):
        await sandbox.agent.reject(asked.approval)
    await sandbox.agent.resume()
    assert (await run.wait()).outcome == "completed"


async def test_words_to_nobody_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxInvalidState, match="no run is open"):
        await sandbox.agent.message("hello?")
    run = await begin(RIG, sandbox, (Say("bye"),))
    await run.wait()
    with pytest.raises(SandboxInvalidState):
        await sandbox.agent.message("hello?", run=run.id)


async def test_a_message_that_comes_twice_is_heard_once(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (WAITS, Call("true"), Say("done")), marker=fresh_marker())
    await until(run, facts.AgentToolUse)
    order = orders.MessageAgent(text="only once")
    for _ in range(3):
        await publish(sandbox._bus, "local", sandbox.id, order, id="said-1")
    await sandbox.agent.message("after it")
    await sandbox.files.write("go", b"")
    await run.wait()
    assert [each.text for each in await told(run, facts.UserMessage)] == ["only once", "after it"]
    assert len(await told(run, facts.AgentDelivered)) == 2


async def test_a_run_in_a_sandbox_that_is_stopped_ends_and_says_why(cloche: Cloche) -> None:
    sandbox = await cloche.create()
    run = await begin(RIG, sandbox, (WAITS, Say("never")))
    await until(run, facts.AgentToolUse)
    await sandbox.stop(reason="closing time")
    result = await run.wait()
    assert result.failure is not None, await story(run)
    assert result.failure.code == "SANDBOX_INVALID_STATE"
    with pytest.raises(SandboxInvalidState):
        await begin(RIG, sandbox, (Say("no"),))
    await sandbox.remove()
    with pytest.raises((SandboxNotFound, SandboxInvalidState)):
        await begin(RIG, sandbox, (Say("no"),))


async def test_a_stop_is_obeyed_while_the_sandbox_is_frozen(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (WAITS, Say("never")))
    await until(run, facts.AgentToolUse)
    await sandbox.pause()
    async with asyncio.timeout(60):
        await sandbox.agent.stop("enough", wait=True)
    assert [each.reason for each in await told(run, facts.AgentCompleted)] == ["stopped: enough"]
    await sandbox.resume()


async def test_a_run_whose_sandbox_was_removed_while_nobody_looked_is_ended_afterwards(
    node: AgentNode, cloche: Cloche
) -> None:
    sandbox = await cloche.create()
    run = await begin(RIG, sandbox, (WAITS, Say("never")))
    await until(run, facts.AgentToolUse)
    await node.services["agent"].kill()
    await sandbox.remove()
    await node.services["agent"].start()
    result = await run.wait()
    assert result.failure is not None
    assert (result.failure.code, "removed" in result.failure.message) == ("SANDBOX_INVALID_STATE", True)


async def test_a_stop_that_is_obeyed_by_the_next_life_of_the_service_leaves_nothing_running(
    node: AgentNode, sandbox: Sandbox
) -> None:
    run = await begin(RIG, sandbox, (Call("touch begun; sleep 600"), Say("never")))
    await has_file(sandbox, "begun")
    await node.services["agent"].kill()
    await publish(sandbox._bus, "local", sandbox.id, orders.StopAgent(reason="enough"))
    await node.services["agent"].start()
    assert (await run.wait()).reason == "stopped: enough"
    assert await sandbox.running() == []


async def test_an_approval_that_nobody_gives_in_time_is_a_denial(sandbox: Sandbox) -> None:
    rules = [TypedRule(verdict=Verdict.ASK)]
    steps = (Call("touch expired.txt"), Say("too late"))
    run = await begin(RIG, sandbox, steps, approvals=rules, approval_timeout_ms=200)
    assert (await run.wait()).outcome == "completed", await story(run)
    assert [each.expired for each in await told(run, facts.AgentRejected)] == [True]
    assert (await sandbox.run("ls expired.txt")).stdout == b""


async def test_time_beyond_the_budget_ends_the_run_with_that_reason(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (WAITS, Say("never")), timeout_ms=500)
    assert (await run.wait()).reason == "budget: 500 ms", await story(run)
    assert await sandbox.running() == []
