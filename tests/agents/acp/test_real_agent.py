"""A real agent of others in a real sandbox, whose only way out leads to a scripted model."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.events import agent as facts
from infra.client import Sandbox
from services.agent.runtimes.acp.retelling import BEGINNING
from tests.agents.acp.player import story, told, until, whole_messages
from tests.agents.acp.real_agent import COMMAND, ENVIRONMENT, installed
from tests.agents.model_server import KEY, ModelServer, model_server
from tests.agents.node import agent_node_in
from tests.agents.script import reply, text, thinking, tool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

ASK = (TypedRule(tool="execute", pattern="*made.txt*", verdict=Verdict.ASK),)
OPTIONS = {"command": COMMAND, "env": ENVIRONMENT}
DEAF = "trap '' TERM; setsid sh -c 'while :; do date > child; sleep 0.05; done' & while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(place: Path) -> AsyncIterator[ModelServer]:
    async with model_server(place) as model:
        yield model


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(model: ModelServer, place: Path) -> AsyncIterator[Sandbox]:
    data = place / "node"
    agent = await asyncio.to_thread(installed)
    with (data / "cloche.toml").open("a") as settings:
        settings.write(f'\n[agent]\ntools = "{agent}"\n')
    spec = {"network": {"allowed_hosts": []}, "secrets": [model.secret("ANTHROPIC_BASE_URL")]}
    async with agent_node_in(data) as node, node.connect() as cloche:
        yield await cloche.create(spec)


async def test_it_works_asks_stops_and_remembers(model: ModelServer, sandbox: Sandbox) -> None:
    model.script(
        "oak-task",
        reply(thinking("let me think"), text("I plant", " it."), tool("Bash", command="echo oak > made.txt")),
        reply("It grows."),
    )
    model.script("deaf-task", reply(tool("Bash", command=DEAF)))
    model.script("last-task", reply("Nothing more."))
    run = await sandbox.agent.start("acp", "oak-task", options=OPTIONS, approvals=ASK, keep_open=True)

    asked = await until(run, facts.AgentApprovalRequested)
    assert (asked.tool, asked.input["command"]) == ("execute", "echo oak > made.txt")
    await sandbox.agent.approve(asked.approval)
    await until(run, facts.AgentWaiting)
    assert (await sandbox.files.read("made.txt")).content == "oak\n"
    assert await whole_messages(run) == ["I plant it.", "It grows."], await story(run)
    assert [each.ok for each in await told(run, facts.AgentToolResult)] == [True]

    await sandbox.agent.message("deaf-task")
    async with asyncio.timeout(60):
        while not (await sandbox.run("cat child")).stdout:
            await asyncio.sleep(0.02)
    await sandbox.agent.interrupt("enough", wait=True)
    assert (await sandbox.run("rm child; sleep 0.3; ls child")).stdout == b""

    await sandbox.agent.message("last-task")
    await until(run, facts.AgentMessage, lambda message: message.text == "Nothing more." and not message.partial)
    await sandbox.agent.stop(wait=True)
    state = await run.state()
    assert state.cost_usd > 0
    assert state.tokens > 0
    assert {each.headers["x-api-key"] for each in model.asked if each.marker} == {KEY}

    model.script("next-task", reply("An oak, as I said."))
    later = await sandbox.agent.start("acp", "next-task", options=OPTIONS, resume=run.id)
    assert (await later.wait()).result == "An oak, as I said.", await story(later)
    (shown,) = (each.shown for each in model.turns("next-task"))
    assert "It grows." in shown
    assert BEGINNING not in shown
