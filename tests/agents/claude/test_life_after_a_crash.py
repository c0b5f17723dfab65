"""Whatever is killed in the middle of a turn: nothing of the run is lost, nothing is done twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.commands.agent import MessageAgent
from contracts.events import agent as facts
from infra.client.agent_run import AgentRun
from infra.client.orders import publish
from tests.agents.claude.following import told, until
from tests.agents.claude.stage import Stage, bash, stage_in
from tests.agents.model_server import Asked
from tests.agents.script import Turn, reply, text

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEPS = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with stage_in(tmp_path_factory.mktemp("claude-crash")) as made:
        yield made


async def test_a_service_that_is_killed_again_and_again_loses_and_doubles_nothing(stage: Stage) -> None:
    held = asyncio.Event()
    stage.model.play("steps", lambda asked: step(asked, held))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Do the steps")
    for number in range(STEPS):
        await said(run, f"Step {number}.")
        if number == 0:
            await until(run, facts.AgentToolResult)
        await stage.node.services["agent"].kill()
        if number == 0:
            # What was asked and answered before is no occasion to tell it.
            order = MessageAgent(text="Carry on with the steps")
            await publish(stage.cloche.bus, stage.node.settings.node, sandbox.id, order)
        await stage.node.services["agent"].start()
    await until(run, facts.AgentMessage, lambda each: each.text.startswith("All"))
    await stage.node.restart("agent")
    held.set()
    assert (await run.wait()).result == "All steps are done."
    assert (await sandbox.files.read("steps")).content.split() == [str(number) for number in range(STEPS)]
    await each_once(run)
    assert stage.model.turns("steps")[-1].shown.count("Carry on with the steps") == 1


def step(asked: Asked, held: asyncio.Event) -> Turn:
    """By how far the conversation is: the message may be heard in this turn, or begin another."""
    number = sum(message["role"] == "assistant" for message in asked.messages)
    if number < STEPS:
        return reply(f"Step {number}.", bash(f"echo {number} >> steps; sleep 0.1"))
    return reply(text("All ", "steps ", held, "are done."))


async def said(run: AgentRun, words: str) -> None:
    await until(run, facts.AgentMessage, lambda each: each.text == words and not each.partial)


async def each_once(run: AgentRun) -> None:
    uses = [each.call for each in await told(run, facts.AgentToolUse)]
    assert (len(uses), len(set(uses))) == (STEPS, STEPS)
    assert [each.call for each in await told(run, facts.AgentToolResult)] == uses
    words = await told(run, facts.AgentMessage)
    wholes = [each for each in words if not each.partial]
    turns = 1 + len([each for each in await told(run, facts.AgentDelivered) if each.where == "prompt"])
    ends = ["All steps are done."] * turns
    assert [each.text for each in wholes] == [*(f"Step {number}." for number in range(STEPS)), *ends]
    for whole in wholes:
        parts = [each for each in words if each.partial and each.message == whole.message]
        assert "".join(part.text for part in parts) == whole.text
    assert len(await told(run, facts.AgentAttached)) == 1
    assert len(await told(run, facts.AgentMetrics)) == turns
    assert len(await told(run, facts.AgentDelivered)) == 1
    kept = [(each.path, each.sha256, each.size) for each in await told(run, facts.AgentTranscript) if each.size > 1000]
    assert len(kept) == len(set(kept))


async def test_a_sandbox_that_is_made_again_resumes_the_conversation_and_is_told_what_happened(stage: Stage) -> None:
    stage.model.script("orchid", reply("I begin.", bash("echo begun > begun; sleep 600")))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Grow the orchid")
    await until(run, facts.AgentToolUse)
    await sandbox.run(["sh", "-c", "until [ -s begun ]; do sleep 0.02; done"])
    stage.model.script("orchid", *[reply("I see, and go on.")] * 3)
    stage.model.script("[SYSTEM]", reply("I see, and go on."))
    await sandbox.recover(reason="the power went")
    assert (await run.wait()).result == "I see, and go on."
    assert [each.attempt for each in await told(run, facts.AgentAttached)] == [1, 2]
    shown = stage.model.asked[-1].shown
    assert "Grow the orchid" in shown
    assert "I begin." in shown
    assert "[SYSTEM]" in shown
    assert "the power went" in shown


async def test_nats_and_the_executor_may_die_while_a_tool_runs(stage: Stage) -> None:
    stage.model.script("hardy", reply(bash("until [ -e go ]; do sleep 0.05; done; echo once >> ran")), reply("Hardy."))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Be hardy")
    await until(run, facts.AgentToolUse)
    stage.node.kill_server()
    await stage.node.restart("executor")
    # A durable order: a request would be refused while the connection is away.
    await sandbox.run(["touch", "go"])
    assert (await run.wait()).result == "Hardy."
    assert (await sandbox.files.read("ran")).content == "once\n"
    assert len(await told(run, facts.AgentToolUse)) == len(await told(run, facts.AgentToolResult)) == 1
