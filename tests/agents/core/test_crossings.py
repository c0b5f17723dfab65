"""Orders that cross each other, and the death of services: nothing is lost, left behind, or out of order."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.commands import agent as orders
from contracts.errors import SandboxInvalidState
from contracts.events import agent as facts
from contracts.message import Order
from infra.client import Sandbox
from infra.client.orders import publish
from infra.secrets.store import SecretStore
from tests.agents.acp.player import ASK, play, sandbox_with_agent
from tests.agents.conformance.scenes import begin, has_file, story, told, until
from tests.agents.node import AgentNode, agent_node_in
from tests.agents.rig import Call, Say
from tests.agents.scripted.rig import make_rig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(200)]
RIG = make_rig()
SECRET = "Q7x_z9K2mmP4-vv81Lw3"
FRAME = 64 * 1024


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentNode]:
    async with agent_node_in(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(node: AgentNode) -> AsyncIterator[Sandbox]:
    async with node.connect() as cloche:
        sandbox = await sandbox_with_agent(cloche)
        yield sandbox
        await sandbox.remove()


async def order(sandbox: Sandbox, what: Order) -> str:
    """Without waiting for anything."""
    return await publish(sandbox._bus, sandbox.state.node, sandbox.id, what)


async def nothing_runs(sandbox: Sandbox) -> None:
    async with asyncio.timeout(20):
        while await sandbox.running():
            await asyncio.sleep(0.05)


async def test_a_resume_right_after_a_pause_resumes(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (Call("touch begun; until [ -e go ]; do sleep 0.02; done"), Say("done")))
    await has_file(sandbox, "begun")
    for _ in range(5):
        await order(sandbox, orders.PauseAgent())
        await order(sandbox, orders.ResumeAgent())
    await sandbox.files.write("go", b"")
    async with asyncio.timeout(30):
        assert (await run.wait()).outcome == "completed", await story(run)


async def test_a_pause_right_after_a_resume_pauses(sandbox: Sandbox) -> None:
    run = await begin(RIG, sandbox, (Call("sleep 600"), Say("never")))
    await until(run, facts.AgentToolUse)
    await sandbox.agent.pause(wait=True)
    await order(sandbox, orders.ResumeAgent())
    again = await order(sandbox, orders.PauseAgent())
    await sandbox.agent.message("are you there?")
    # Whether or not it had time to resume in between, it is paused in the end.
    state = await run.state()
    paused = await told(run, facts.AgentPaused)
    if not state.paused:
        await until(run, facts.AgentPaused, lambda fact: fact.order == again)
    else:
        assert len(paused) == len(await told(run, facts.AgentResumed)) + 1
    await sandbox.agent.stop(wait=True)


async def test_a_run_that_is_stopped_as_its_command_is_ordered_leaves_nothing(sandbox: Sandbox) -> None:
    for _ in range(5):
        run = await begin(RIG, sandbox, (Call("sleep 600"), Say("never")))
        await order(sandbox, orders.StopAgent())
        await run.wait()
        await nothing_runs(sandbox)


async def test_a_run_that_is_stopped_before_its_program_could_begin_leaves_nothing(
    node: AgentNode, sandbox: Sandbox
) -> None:
    await node.services["executor"].kill()
    run = await play(sandbox, {"await": "never"})
    await until(run, facts.AgentAttached)
    stopping = asyncio.create_task(sandbox.agent.stop(wait=True))
    await until(run, facts.UserStop)
    await node.services["executor"].start()
    await stopping
    await nothing_runs(sandbox)


async def test_nothing_is_accepted_that_would_not_be_heard(sandbox: Sandbox) -> None:
    shell = "touch begun; trap '' TERM; sleep 600"
    run = await play(sandbox, {"run": {"id": "c", "shell": shell}}, manners={"deaf": True})
    await has_file(sandbox, "begun")
    await order(sandbox, orders.StopAgent())
    await until(run, facts.UserStop)
    with pytest.raises(SandboxInvalidState):
        await sandbox.agent.message("do you hear me?")
    await run.wait()


async def test_an_interrupt_takes_back_all_questions_at_once(sandbox: Sandbox) -> None:
    call = {"kind": "execute", "input": {"command": "x"}, "file": "granted"}
    run = await play(sandbox, {"ask": {"id": "a", **call}}, approvals=ASK)
    await until(run, facts.AgentApprovalRequested)
    await sandbox.agent.interrupt("enough", wait=True)
    assert await sandbox.agent.pending() == []
    assert await told(run, facts.AgentError) == []
    await sandbox.agent.stop(wait=True)


async def test_what_is_said_around_the_death_of_the_service_stays_in_order(node: AgentNode, sandbox: Sandbox) -> None:
    run = await play(sandbox, {"say": "hi"}, keep_open=True)
    await until(run, facts.AgentWaiting)
    # It has the first in hand when it dies.
    os.kill(node.services["agent"].pid, signal.SIGSTOP)
    said = [await order(sandbox, orders.MessageAgent(text="first"))]
    await node.restart("agent")
    said.append(await order(sandbox, orders.MessageAgent(text="second")))
    await until(run, facts.AgentDelivered, lambda fact: fact.order == said[1])
    assert [each.order for each in await told(run, facts.AgentDelivered)] == said
    await sandbox.agent.stop(wait=True)


async def test_a_long_line_with_a_secret_across_a_border_is_said_once(node: AgentNode, sandbox: Sandbox) -> None:
    SecretStore.of(node.settings).put("TEST_KEY", SECRET.encode())
    run = await play(sandbox, {"say": "hi"}, keep_open=True)
    await until(run, facts.AgentWaiting)
    for number, before in enumerate((0, 3, 8, 13)):
        await sandbox.agent.message("p" * before + SECRET * (FRAME // len(SECRET) + 10))
        await until(run, facts.AgentWaiting, count=number + 2)
    assert len(await told(run, facts.AgentDelivered)) == 4
    await sandbox.agent.stop(wait=True)
