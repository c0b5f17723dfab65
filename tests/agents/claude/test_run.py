"""The real SDK and the real CLI in a real sandbox, whose only way out leads to a model that answers by script."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts.agents import TypedRule, Verdict
from contracts.errors import Invalid, SandboxInvalidState
from contracts.events import agent as facts
from infra.bus.reader import bounds, read
from infra.client import Sandbox
from infra.client.agent_run import AgentRun
from tests.agents.claude.following import told, until
from tests.agents.claude.stage import Stage, bash, stage_in
from tests.agents.model_server import HOST, KEY, Asked
from tests.agents.script import Fails, Garbage, Turn, reply, text, thinking, tool
from tests.conformance.tiers import require

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with stage_in(tmp_path_factory.mktemp("claude")) as made:
        yield made


@pytest.mark.parametrize("tier", ["local", "docker"])
async def test_a_task_with_several_tool_calls_is_on_the_record_step_by_step(stage: Stage, tier: str) -> None:
    require(tier)
    marker = f"task-{tier}"
    stage.model.script(
        marker,
        reply(thinking("to be ", "made"), "I write it.", tool("Write", file_path="/workspace/a.txt", content="one\n")),
        reply(bash("echo two >> a.txt"), bash("cat a.txt; exit 3")),
        reply(text("Both ", "lines are there.")),
    )
    sandbox = await stage.sandbox(tier)
    run = await sandbox.agent.start("claude", f"Do {marker}", model="claude-opus-5-5")
    result = await run.wait()
    assert (result.outcome, result.reason, result.result) == ("completed", "done", "Both lines are there.")
    uses = await told(run, facts.AgentToolUse)
    assert [(use.tool, use.input.get("command")) for use in uses] == [
        ("Write", None),
        ("Bash", "echo two >> a.txt"),
        ("Bash", "cat a.txt; exit 3"),
    ]
    results = {each.call: each for each in await told(run, facts.AgentToolResult)}
    assert [results[use.call].ok for use in uses] == [True, True, False]
    assert "one\ntwo" in results[uses[2].call].output
    assert all(each.duration_ms for each in results.values())
    assert [each.text for each in await told(run, facts.AgentThinking) if not each.partial] == ["to be made"]
    said = await told(run, facts.AgentMessage)
    assert [each.text for each in said if not each.partial] == ["I write it.", "Both lines are there."]
    for whole in (each for each in said if not each.partial):
        assert "".join(part.text for part in said if part.partial and part.message == whole.message) == whole.text
    assert (await sandbox.files.read("a.txt")).content == "one\ntwo\n"
    assert (result.tokens, result.turns, result.tool_calls) == (3 * 1050, 1, 3)
    assert result.cost_usd > 0
    await the_key_came_from_egress(stage, marker, sandbox.id)


async def at_end(stage: Stage, sandbox: Sandbox) -> dict[str, object]:
    """Its files as they are now, and all that is on record by then."""
    await sandbox.snapshot()
    return {"kind": "fork", "sandbox": sandbox.id, "sequence": (await bounds(stage.cloche.bus)).last}


async def the_key_came_from_egress(stage: Stage, marker: str, sandbox: str) -> None:
    asked = stage.model.turns(marker)
    assert len(asked) == 3
    assert {each.headers["x-api-key"] for each in asked} == {KEY}
    async with await stage.node.server.connect("admin") as admin:
        hosts = set()
        async for entry in read(admin, [f"cloche.log.{sandbox}.>"], 1, follow=False):
            assert KEY.encode() not in entry.data
            if ".network.allowed" in entry.subject or ".network.denied" in entry.subject:
                hosts.add(json.loads(entry.data)["data"]["host"])
    assert hosts == {HOST}


async def test_words_are_told_as_they_come_and_a_message_begins_the_next_turn(stage: Stage) -> None:
    more = asyncio.Event()
    stage.model.script("slow", reply(text("The first half ", more, "and the second.")), reply("The next turn."))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Be slow", keep_open=True)
    part = await until(run, facts.AgentMessage)
    assert (part.text, part.partial) == ("The first half ", True)
    more.set()
    await until(run, facts.AgentWaiting)
    said = await sandbox.agent.message("Now go on, slow one")
    await whole(run, "The next turn.")
    delivered = await until(run, facts.AgentDelivered)
    assert (delivered.order, delivered.where) == (said.order, "prompt")
    assert "Now go on, slow one" in stage.model.turns("slow")[-1].shown
    turns = itertools.count(1)
    await until(run, facts.AgentMetrics, lambda each: each.turns == 1 and next(turns) == 2)
    await sandbox.agent.stop(wait=True)
    assert (await run.wait()).reason == "stopped: asked"


async def test_what_is_said_in_a_turn_is_shown_with_its_next_tool_call(stage: Stage) -> None:
    more = asyncio.Event()
    stage.model.script("steered", reply(text("Wait ", more), bash("echo ran")), reply("I have heard."))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Be steered")
    await until(run, facts.AgentMessage)
    said = await sandbox.agent.message("use tabs, not blanks")
    guided = await sandbox.agent.guide("and be brief")
    more.set()
    assert (await run.wait()).result == "I have heard."
    call = (await told(run, facts.AgentToolUse))[0].call
    delivered = await told(run, facts.AgentDelivered)
    assert [(each.order, each.where, each.call) for each in delivered] == [
        (said.order, "tool_call", call),
        (guided.order, "tool_call", call),
    ]
    shown = stage.model.turns("steered")[-1].shown
    assert "[USER] use tabs, not blanks\\n\\n[USER] and be brief" in shown


async def test_whatever_is_said_at_any_moment_of_a_turn_is_shown_to_the_model_once_or_refused(stage: Stage) -> None:
    stage.model.play("chatty", chatty)
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Be chatty")
    said: list[str] = []
    with contextlib.suppress(SandboxInvalidState):
        for number in range(WORDS):
            await sandbox.agent.message(f"chatty word-{number}.")
            said.append(f"word-{number}.")
    assert (await run.wait()).outcome == "completed"
    assert said
    shown = stage.model.turns("chatty")[-1].shown
    assert [shown.count(each) for each in said] == [1] * len(said)
    assert len(await told(run, facts.AgentDelivered)) == len(said)


CALLS, WORDS = 4, 25


def chatty(asked: Asked) -> Turn:
    """Some calls, and then an end, also of the turns that what was said has begun."""
    answers = sum(message["role"] == "assistant" for message in asked.messages)
    return reply(bash("sleep 0.1")) if answers < CALLS else reply("Enough.")


async def test_rules_allow_ask_and_deny_whatever_the_settings_of_a_repository_say(stage: Stage) -> None:
    stage.model.script(
        "rules",
        reply(bash("echo free")),
        reply(bash("echo asked >> count"), bash("echo refused >> count"), bash("rm -rf count")),
        reply("That was all."),
    )
    rules = [
        TypedRule(tool="Bash", pattern="rm *", verdict=Verdict.DENY, reason="nothing is removed here"),
        TypedRule(tool="Bash", pattern="*count", verdict=Verdict.ASK, reason="it counts"),
    ]
    sandbox = await stage.sandbox()
    # Settings that come with a repository do not lift what is asked for.
    lax = {"disableAllHooks": True, "permissions": {"allow": ["Bash"], "defaultMode": "bypassPermissions"}}
    await sandbox.run(["mkdir", ".claude"])
    for name in ("settings.json", "settings.local.json"):
        await sandbox.files.write(f".claude/{name}", json.dumps(lax))
    run = await sandbox.agent.start("claude", "Keep the rules", approvals=rules)
    first = await until(run, facts.AgentApprovalRequested)
    assert (first.tool, first.input["command"], first.reason) == ("Bash", "echo asked >> count", "it counts")
    await sandbox.agent.approve(first.approval)
    second = await until(run, facts.AgentApprovalRequested, lambda each: each.approval != first.approval)
    await sandbox.agent.reject(second.approval, reason="once is enough")
    assert (await run.wait()).outcome == "completed"
    assert (await sandbox.files.read("count")).content == "asked\n"
    shown = stage.model.turns("rules")[-1].shown
    assert "once is enough" in shown
    assert "nothing is removed here" in shown
    rejected = {each.by: each.reason for each in await told(run, facts.AgentRejected)}
    assert rejected == {"policy": "nothing is removed here", "user": "once is enough"}
    assert len(await told(run, facts.AgentApproved)) == 1
    assert len(await told(run, facts.AgentToolResult)) == 4


LASTING = (
    "trap '' TERM INT HUP; "
    "(setsid sh -c \"trap '' TERM INT HUP; echo \\$\\$ > left; while :; do sleep 0.05; done\" &); "
    "until [ -s left ]; do sleep 0.01; done; echo $$ > main; while :; do sleep 0.05; done"
)


async def test_an_interrupt_ends_a_call_with_its_tree_or_its_question_and_nothing_that_was_said_is_lost(
    stage: Stage,
) -> None:
    more = asyncio.Event()
    stage.model.script("lasting", reply(text("Now ", more), bash(LASTING)), reply(bash("touch asked")), reply("Well."))
    sandbox = await stage.sandbox()
    rules = [TypedRule(tool="Bash", pattern="touch *", verdict=Verdict.ASK)]
    run = await sandbox.agent.start("claude", "Do the lasting", approvals=rules)
    await until(run, facts.AgentMessage)
    await sandbox.agent.message("mind the gap")
    more.set()
    await sandbox.run(["sh", "-c", "until [ -s main ]; do sleep 0.02; done"])
    asked = await sandbox.agent.interrupt("enough", wait=True)
    alive = "for f in left main; do kill -0 $(cat $f) 2>/dev/null && echo $f; done; exit 0"
    assert (await sandbox.run(["sh", "-c", alive])).stdout == b""
    acknowledged = (await told(run, facts.AgentInterrupted))[0]
    assert (acknowledged.reason, acknowledged.order) == ("enough", asked.order)
    await sandbox.agent.message("Do something else, lasting no longer")
    await until(run, facts.AgentApprovalRequested)
    # It went with the call that was interrupted, of which the model was shown nothing.
    assert "[USER] mind the gap" in stage.model.turns("lasting")[-1].shown
    await sandbox.agent.interrupt(wait=True)
    assert await sandbox.agent.pending() == []
    await sandbox.agent.message("Be done, lasting")
    assert (await run.wait()).result == "Well."
    assert stage.model.turns("lasting")[-1].shown.count("mind the gap") == 1
    assert (await sandbox.run(["test", "-e", "asked"])).exit_code == 1


async def test_a_budget_ends_the_run_in_the_middle_of_a_turn(stage: Stage) -> None:
    sandbox = await stage.sandbox()
    stage.model.script("dear", reply(bash("echo 1"), input_tokens=100_000), reply(bash("echo 2")))
    run = await sandbox.agent.start("claude", "Be dear", max_budget_usd=0.1)
    ended = await run.wait()
    assert ended.reason.startswith("budget: ")
    assert ended.cost_usd > 0.1
    stage.model.script("wordy", reply(bash("echo 1")), reply(bash("echo 2")), reply("never said"))
    run = await sandbox.agent.start("claude", "Be wordy", max_tokens=2000)
    ended = await run.wait()
    assert ended.reason == "budget: 2100 of 2000 tokens"


async def test_a_subagent_is_told_apart_and_the_next_run_goes_on_with_the_conversation(stage: Stage) -> None:
    stage.model.script(
        "leader",
        reply(tool("Agent", description="look", prompt="Helper, look", subagent_type="general-purpose")),
        reply("I wait for it."),
        reply("It is at work."),
        *[reply("The helper is done.")] * 3,
    )
    looking = "echo seen > seen; until [ -e go ]; do sleep 0.05; done"
    stage.model.script("Helper", reply("Helping.", bash(looking)), reply("It is seen."))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "You are the leader, purple")
    await sandbox.run(["sh", "-c", "until [ -e seen ]; do sleep 0.02; done"])
    await whole(run, "I wait for it.")
    await sandbox.agent.message("leader, what does it do?")
    await whole(run, "It is at work.")
    await sandbox.files.write("go", "")
    assert (await run.wait()).result == "The helper is done."
    uses = await told(run, facts.AgentToolUse)
    assert [(use.tool, use.parent) for use in uses] == [("Agent", None), ("Bash", uses[0].call)]
    helping = [each for each in await told(run, facts.AgentMessage) if each.parent == uses[0].call]
    assert [each.text for each in helping][:1] == ["Helping."]
    assert [each.where for each in await told(run, facts.AgentDelivered)] == ["prompt"]
    paths = {each.path for each in await told(run, facts.AgentTranscript)}
    assert len(paths) == 2
    stage.model.script("colour", reply("It was purple."))
    fork = await stage.sandbox(workspace={"source": await at_end(stage, sandbox)})
    again = await fork.agent.start("claude", "Which colour was it?", resume=run.id)
    assert (await again.wait()).result == "It was purple."
    shown = stage.model.turns("colour")[-1].shown
    assert "You are the leader, purple" in shown
    assert "The helper is done." in shown


async def test_a_conversation_is_forked_in_the_middle_of_a_run(stage: Stage) -> None:
    painting = "echo seen > seen; until [ -e go ]; do sleep 0.05; done"
    stage.model.script("painter", reply("I begin.", bash(painting)), reply("Painted late."))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "You are the painter, purple")
    await until(run, facts.AgentTranscript, lambda each: "I begin." in (each.data or ""))
    await sandbox.run(["sh", "-c", "until [ -e seen ]; do sleep 0.02; done"])
    middle = await at_end(stage, sandbox)
    await sandbox.files.write("go", "")
    assert (await run.wait()).result == "Painted late."
    stage.model.script("shade", reply("It was purple."))
    fork = await stage.cloche.fork(sandbox.id, at=int(str(middle["sequence"])))
    again = await fork.agent.start("claude", "Which shade was it?", resume=run.id)
    assert (await again.wait()).result == "It was purple."
    shown = stage.model.turns("shade")[-1].shown
    assert "You are the painter, purple" in shown
    assert "I begin." in shown
    assert "Painted late." not in shown


async def whole(run: AgentRun, words: str) -> None:
    await until(run, facts.AgentMessage, lambda each: each.text == words and not each.partial)


async def test_errors_of_the_model_are_waited_out_or_told(stage: Stage) -> None:
    stage.model.script("busy", Fails(529, "overloaded_error"), Garbage(b"no stream\n\n"), reply("At last."))
    sandbox = await stage.sandbox()
    run = await sandbox.agent.start("claude", "Be busy")
    assert (await run.wait()).result == "At last."
    assert "529" in (await told(run, facts.AgentError))[0].failure.message
    stage.model.script("refused", *[Fails(400, "invalid_request_error", "no such thing")] * 9)
    failed = await (await sandbox.agent.start("claude", "Be refused")).wait()
    assert failed.outcome == "error"
    assert "no such thing" in failed.reason


async def test_options_are_checked_before_anything_is_begun(stage: Stage) -> None:
    sandbox = await stage.sandbox()
    with pytest.raises(Invalid, match=r"options.*colour"):
        await sandbox.agent.start("claude", "Go", options={"colour": "blue"})
