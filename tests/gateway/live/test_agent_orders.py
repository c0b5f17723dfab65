"""Every order to an agent over a WebSocket comes to pass, and what came of it is an event with its asker."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from contracts.access import Role
from tests.gateway.live.client import Follower, following
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")
ASKING = [{"tool": "*", "verdict": "ask"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("orders"), "agent") as found:
        yield found


async def begun(gateway: Gateway, sandbox: str, *steps: dict[str, Any], **more: Any) -> None:
    order = {"runtime": "script", "prompt": "play", "options": {"script": json.dumps(steps)}, **more}
    async with gateway.client() as client:
        answer = await client.post(f"/api/v1/sandboxes/{sandbox}/agent?wait=60", json=order)
    assert answer.status_code == 200, answer.text


async def heard(follower: Follower, event_type: str) -> dict[str, Any]:
    event = await follower.until("event", event_type=event_type)
    data: dict[str, Any] = event["data"]["data"]
    return data


@pytest.mark.parametrize(("command", "told"), [("approve", "agent.approved"), ("reject", "agent.rejected")])
async def test_a_question_is_answered(gateway: Gateway, command: str, told: str) -> None:
    sandbox = await gateway.cloche.create()
    async with following(gateway, sandbox.id) as follower:
        await begun(gateway, sandbox.id, {"run": "true"}, approvals=ASKING)
        asked = await heard(follower, "agent.approval_requested")
        answered = await follower.order(command, approval=asked["approval"], reason="because")
        assert answered["type"] == "result", answered
        said = await heard(follower, f"user.{command}")
        assert (said["approval"], said["reason"], said["by"]) == (asked["approval"], "because", "gateway/tester")
        assert (await heard(follower, told))["approval"] == asked["approval"]
        assert (await follower.order(command, approval=asked["approval"]))["type"] == "error"


async def test_an_agent_is_paused_resumed_guided_and_interrupted(gateway: Gateway) -> None:
    sandbox = await gateway.cloche.create()
    async with following(gateway, sandbox.id) as follower:
        await begun(gateway, sandbox.id, {"run": "sleep 1000"}, keep_open=True)
        await heard(follower, "command.started")
        for command, payload in (
            ("pause", {"reason": "a moment"}),
            ("resume", {}),
            ("guidance", {"text": "slower"}),
            ("interrupt", {"reason": "enough"}),
        ):
            answered = await follower.order(command, **payload)
            assert answered["type"] == "result", answered
            event = await follower.until("event", event_type=f"user.{command}")
            assert (event["sequence"], event["data"]["data"]["by"]) == (
                answered["payload"]["sequence"],
                "gateway/tester",
            )
        assert (await heard(follower, "agent.interrupted"))["reason"] == "enough"


async def test_the_same_key_is_the_same_order_whatever_it_is(gateway: Gateway) -> None:
    sandbox = await gateway.cloche.create()
    async with following(gateway, sandbox.id) as follower:
        await begun(gateway, sandbox.id, {"run": "true"}, {"run": "sleep 1000"}, keep_open=True, approvals=ASKING)
        asked = await heard(follower, "agent.approval_requested")
        orders: list[tuple[str, dict[str, Any]]] = [
            ("approve", {"approval": asked["approval"]}),
            ("pause", {}),
            ("resume", {}),
            ("interrupt", {}),
            ("send_message", {"text": "on"}),
            ("guidance", {"text": "slower"}),
        ]
        for command, payload in orders:
            told = []
            for number in ("first", "again"):
                await follower.say(type="command", id=number, key="k", command=command, payload=payload)
                told.append((await follower.until("result", id=number))["payload"])
            assert told[0] == told[1], command
        for command in ("pause", "resume"):
            for number in ("first", "again"):
                target = {"target": "sandbox"}
                await follower.say(type="command", id=number, key="s", command=command, payload=target)
                await follower.until("result", id=number)
    types = [event.head.type async for event in sandbox.events(types=["user", "sandbox"])]
    once = ["user.approve", "user.pause", "user.resume", "user.interrupt", "user.message", "user.guidance"]
    once += ["sandbox.paused", "sandbox.resumed"]
    assert [types.count(each) for each in once] == [1] * len(once)


async def test_a_command_that_was_run_says_who_asked(gateway: Gateway) -> None:
    sandbox = await gateway.cloche.create()
    async with following(gateway, sandbox.id, gateway.token(subject="ann@example.com")) as follower:
        await follower.order("run", argv=["true"])
        assert (await heard(follower, "command.started"))["by"] == "gateway/ann@example.com"


async def test_files_and_terminals_are_those_of_any_moment(gateway: Gateway) -> None:
    sandbox = await gateway.cloche.create()
    first = await sandbox.run("echo before; echo x > one")
    then = (await sandbox.flush()).sequence
    await sandbox.run("echo after; rm one; echo y > two")
    await sandbox.flush()
    async with following(gateway, sandbox.id, gateway.token(Role.VIEWER)) as follower:
        for at, files, shown in ((then, ["one"], "before"), (None, ["two"], "after")):
            listed = (await follower.order("request_files", at=at))["payload"]
            assert [entry["path"] for entry in listed["entries"]] == files
            screen = (await follower.order("request_terminal", at=at))["payload"]
            assert screen["lines"][0] == shown
        named = (await follower.order("request_terminal", exec=first.exec))["payload"]
        assert named["lines"][0] == "before"
