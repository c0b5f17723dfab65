"""The real SDK in a real sandbox, whose only way out leads to a model that answers by script.

The SDK takes seconds to start, so one run goes through most of it, turn by turn, and another goes on from it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.events import agent as facts
from contracts.events.command import CommandCompleted
from contracts.events.network import NetworkAllowed
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from tests.agents.conformance.scenes import story, told, until
from tests.agents.model_server import HOST, KEY, ModelServer
from tests.agents.openhands.rig import OPTIONS, OpenHandsRig, make_rig
from tests.agents.rig import World
from tests.agents.script import Fails, Turn, reply, text, thinking, tool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

MARKER = "the-bed-of-roses"
ASK = TypedRule(tool="terminal", pattern="*asked*", verdict=Verdict.ASK)
LATER = asyncio.Event()
STUBBORN = "trap '' INT TERM; touch spinning; while :; do :; done"

TURNS: list[list[Turn]] = [
    [
        reply(thinking("deep ", "roots"), "I dig.", tool("terminal", command="echo one > rose.txt; pwd")),
        reply(
            tool("file_editor", command="create", path="/workspace/bud.txt", file_text="two\n"),
            tool("terminal", command="until [ -e go ]; do sleep 0.02; done; cat rose.txt bud.txt"),
        ),
        reply(text("It ", "grows.")),
    ],
    [reply(text("first half, ", LATER, "second half"))],
    [
        reply(tool("terminal", command="echo a >> asked.txt"), tool("terminal", command="echo b >> asked.txt")),
        reply("One of two."),
    ],
    [reply(tool("terminal", command="echo c >> asked.txt")), reply("never")],
    [reply(tool("terminal", command=STUBBORN)), reply("never")],
    [
        reply(tool("terminal", command="echo new shell; ls /proc/$PPID/fd")),
        reply(tool("finish", message="All is well.")),
    ],
    [Fails(400, "invalid_request_error", "a wilted key")],
]


class Stage(NamedTuple):
    world: World
    rig: OpenHandsRig
    sandbox: Sandbox
    run: AgentRun

    @property
    def model(self) -> ModelServer:
        return self.rig.model


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    rig = make_rig()
    async with rig.world(tmp_path_factory.mktemp("openhands")) as world:
        sandbox = await rig.sandbox(world)
        rig.script(MARKER, *TURNS)
        prompt = f"Tend to {MARKER}."
        run = await sandbox.agent.start(
            "openhands", prompt, model="scripted", keep_open=True, approvals=[ASK], options=OPTIONS
        )
        yield Stage(world, rig, sandbox, run)


async def turns_are_over(stage: Stage, count: int) -> None:
    await until(stage.run, facts.AgentWaiting, count=count)


async def test_a_message_in_the_middle_is_shown_to_the_model_before_it_goes_on(stage: Stage) -> None:
    await until(stage.run, facts.AgentToolUse, count=3)
    said = await stage.sandbox.agent.message("mind the thorns")
    await stage.sandbox.files.write("go", b"")
    await turns_are_over(stage, 1)
    (delivered,) = await told(stage.run, facts.AgentDelivered)
    assert (delivered.order, delivered.where) == (said.order, "turn")
    asked = stage.model.turns(MARKER)
    assert ["mind the thorns" in each.shown for each in asked] == [False, False, True]
    assert asked[2].messages[-1]["role"] == "user"
    assert "[USER] mind the thorns" in json.dumps(asked[2].messages[-1])


async def test_every_step_is_on_the_record(stage: Stage) -> None:
    uses, results = await told(stage.run, facts.AgentToolUse), await told(stage.run, facts.AgentToolResult)
    assert [use.tool for use in uses] == ["terminal", "file_editor", "terminal"]
    assert [each.call for each in results] == [use.call for use in uses]
    assert [each.ok for each in results] == [True, True, True]
    assert "/workspace" in results[0].output
    assert "\x1b" not in results[0].output
    assert "one" in results[2].output
    assert "two" in results[2].output
    words = [each.text for each in await told(stage.run, facts.AgentMessage) if not each.partial]
    assert words == ["I dig.", "It grows."]
    assert [each.text for each in await told(stage.run, facts.AgentThinking) if not each.partial] == ["deep roots"]
    listed = (await stage.sandbox.run("ls -A")).stdout.split()
    assert listed == [b"bud.txt", b"go", b"rose.txt"], "nothing of the agent's own lies in the workspace"


async def test_tokens_and_costs_are_those_of_the_model(stage: Stage) -> None:
    state = await stage.run.state()
    assert (state.tokens, state.turns, state.tool_calls) == (3 * 1050, 1, 3)
    assert state.cost_usd == pytest.approx(3 * (1000 * 1e-6 + 50 * 1e-5))


async def test_the_key_is_added_outside_and_nothing_else_is_reached(stage: Stage) -> None:
    assert {each.headers["authorization"] for each in stage.model.asked} == {f"Bearer {KEY}"}
    network = [event async for event in stage.run.events(also=["network"]) if event.head.type.startswith("network.")]
    assert {event.head.type for event in network} == {"network.allowed"}
    allowed = [event.fact for event in network if isinstance(event.fact, NetworkAllowed)]
    assert {fact.host for fact in allowed} == {HOST}


async def test_a_service_that_is_killed_while_words_come_tells_each_of_them_once(stage: Stage) -> None:
    await stage.sandbox.agent.message(f"{MARKER}: tell me")
    await until(stage.run, facts.AgentMessage, lambda fact: fact.partial and "first half" in fact.text)
    await stage.world.node.restart("agent")
    LATER.set()
    await turns_are_over(stage, 2)
    said = [fact for fact in await told(stage.run, facts.AgentMessage) if "half" in fact.text]
    assert [fact.text for fact in said if not fact.partial] == ["first half, second half"]
    parts = sorted((fact.offset, fact.text) for fact in said if fact.partial)
    assert "first half, second half".startswith("".join(words for _, words in parts))
    assert len({fact.message for fact in said}) == 1


async def test_of_two_calls_at_once_one_is_allowed_and_one_is_not(stage: Stage) -> None:
    await stage.sandbox.agent.message(f"{MARKER}: ask me")
    await until(stage.run, facts.AgentApprovalRequested, count=2)
    await stage.world.node.restart("agent")
    first, second = await stage.sandbox.agent.pending()
    await stage.sandbox.agent.reject(second.request.approval, reason="not b")
    await stage.sandbox.agent.approve(first.request.approval)
    await turns_are_over(stage, 3)
    assert (await stage.sandbox.run("cat asked.txt")).stdout == b"a\n"
    results = (await told(stage.run, facts.AgentToolResult))[-2:]
    assert [each.ok for each in results] == [True, False]
    assert "not b" in results[1].output
    assert "not b" in stage.model.turns(MARKER)[-1].shown


async def test_a_call_that_waits_for_leave_is_not_asked_about_after_an_interrupt(stage: Stage) -> None:
    await stage.sandbox.agent.message(f"{MARKER}: ask again")
    asked = await until(stage.run, facts.AgentApprovalRequested, count=3)
    await stage.sandbox.agent.interrupt("never mind", wait=True)
    await turns_are_over(stage, 4)
    rejected = (await told(stage.run, facts.AgentRejected))[-1]
    assert (rejected.approval, rejected.reason) == (asked.approval, "its turn is over")
    assert await stage.sandbox.agent.pending() == []
    assert (await stage.sandbox.run("cat asked.txt")).stdout == b"a\n"


async def test_a_shell_that_will_not_stop_is_replaced(stage: Stage) -> None:
    await stage.sandbox.agent.message(f"{MARKER}: spin")
    await until(stage.run, facts.AgentToolUse, lambda fact: fact.input["command"] == STUBBORN)
    async with asyncio.timeout(60):
        while (await stage.sandbox.run(["test", "-e", "spinning"])).exit_code:
            await asyncio.sleep(0.02)
    await stage.sandbox.agent.interrupt("dizzy", wait=True)
    assert (await told(stage.run, facts.AgentInterrupted))[-1].reason == "dizzy"
    assert b"bash -i" not in (await stage.sandbox.run("ps -eo args")).stdout
    await turns_are_over(stage, 5)
    await stage.sandbox.agent.message(f"{MARKER}: again")
    await turns_are_over(stage, 6)
    last = (await told(stage.run, facts.AgentToolResult))[-1].output
    assert "new shell" in last
    assert "Permission denied" in last, "what a tool runs does not get at the agent's own input and output"
    assert (await told(stage.run, facts.AgentMessage))[-1].text == "All is well."


async def test_a_model_that_fails_ends_the_run_with_its_words(stage: Stage) -> None:
    await stage.sandbox.agent.message(f"{MARKER}: more")
    result = await stage.run.wait()
    assert result.failure is not None, await story(stage.run)
    assert result.failure.code == "AGENT_FAILED"
    assert "a wilted key" in result.failure.message


async def test_a_later_run_remembers_and_its_program_ends_by_itself(stage: Stage) -> None:
    stage.rig.script(MARKER, [reply("I remember.")])
    later = await stage.sandbox.agent.start(
        "openhands", "What did we do?", model="scripted", resume=stage.run.id, options=OPTIONS
    )
    result = await later.wait()
    assert (result.outcome, result.result) == ("completed", "I remember."), await story(later)
    shown = stage.model.turns(MARKER)[-1].shown
    for words in (MARKER, "mind the thorns", "It grows.", "not b", "All is well.", "What did we do?"):
        assert words in shown
    assert result.tokens == 1050, "what the earlier run has spent is not counted again"
    (attached,) = await told(later, facts.AgentAttached)
    ends = [event.fact async for event in later.events(also=["command.completed"])]
    (end,) = [fact for fact in ends if isinstance(fact, CommandCompleted) and fact.exec == attached.process]
    assert end.exit.code == 0
