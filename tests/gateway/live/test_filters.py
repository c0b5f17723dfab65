"""What is followed can be chosen, and chosen anew while connected."""

from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from contracts.access import Role, Scope
from tests.gateway.live.client import following
from tests.gateway.rig import gateway_in


async def test_types_are_changed_while_connected_and_the_past_of_the_new_ones_can_be_had(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        await sandbox.run("echo one")
        async with following(gateway, sandbox.id, types="command.output", from_=1) as follower:
            only = await follower.until("event")
            assert only["event_type"] == "command.output"
            assert follower.connected["buffered_events_count"] == 1
            await follower.say(type="subscribe", id="s", types=["sandbox", "command.completed"], **{"from": 1})
            told = await follower.next()
            assert told == {
                "type": "subscribed",
                "id": "s",
                "from": 1,
                "types": ["sandbox", "command.completed"],
                "sandboxes": [sandbox.id],
            }
            past = await follower.events_until("command.completed")
            assert [event["event_type"] for event in past] == [
                "sandbox.creating",
                "sandbox.created",
                "sandbox.started",
                "command.completed",
            ]
            await follower.say(type="subscribe", types=["command.output"])
            assert (await follower.until("subscribed"))["from"] == past[-1]["sequence"] + 1
            await sandbox.run("echo two")
            assert (await follower.until("event"))["data"]["data"]["data"] == "two\n"


async def test_wrong_filters_are_refused_and_those_before_stay(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id, types="command.output") as follower:
            for wrong in ({"types": ["a.b.c>"]}, {"types": "command"}, {"from": -1}, {"sandboxes": ["*"]}, {"more": 1}):
                await follower.say(type="subscribe", id="w", **wrong)
                assert (await follower.next())["code"] == "INVALID"
            await follower.say(type="subscribe", id="w", sandboxes=["another"])
            assert (await follower.next())["code"] == "INVALID"
            await sandbox.run("echo still")
            assert (await follower.until("event"))["event_type"] == "command.output"


async def test_many_sandboxes_are_followed_and_chosen_among(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        one, two = await gateway.cloche.create(), await gateway.cloche.create()
        async with following(gateway, None, types="command.output") as follower:
            assert follower.connected["sandbox_id"] is None
            for sandbox in (one, two):
                await sandbox.run("echo here")
                assert (await follower.until("event"))["sandbox_id"] == sandbox.id
            await follower.say(type="subscribe", types=["command.output"], sandboxes=[two.id])
            await follower.until("subscribed")
            await one.run("echo unheard")
            await two.run("echo heard")
            assert (await follower.until("event"))["sandbox_id"] == two.id
            names = [two.id, *(f"none-{number}" for number in range(100))]
            await follower.say(type="subscribe", types=["command.output"], sandboxes=names, **{"from": 1})
            await follower.until("subscribed")
            again = [(await follower.until("event")) for _ in range(2)]
            assert [event["data"]["data"]["data"] for event in again] == ["here\n", "heard\n"]


NAMED = Scope(projects=("web",), sandboxes=("theirs", "ours", "later"))
"""Whatever a token names, it is of its projects."""


@pytest.mark.parametrize("scope", [Scope(labels={"team": "a"}), Scope(projects=("web",)), NAMED])
async def test_a_scope_of_labels_or_projects_holds_for_every_event_of_the_past_and_of_what_comes(
    tmp_path: Path, scope: Scope
) -> None:
    async with gateway_in(tmp_path) as gateway:
        theirs = await gateway.cloche.create({"labels": {"team": "b"}, "project_id": "other"}, id="theirs")
        ours = await gateway.cloche.create({"labels": {"team": "a", "more": "x"}, "project_id": "web"}, id="ours")
        token = gateway.token(Role.VIEWER, scope)
        async with following(gateway, None, token, from_=1) as follower:
            assert follower.connected["buffered_events_count"] is None
            seen = await follower.events_until("sandbox.started")
            assert {event["sandbox_id"] for event in seen} == {ours.id}
            await theirs.run("true")
            later = await gateway.cloche.create({"labels": {"team": "a"}, "project_id": "web"}, id="later")
            seen = await follower.events_until("sandbox.started")
            assert {event["sandbox_id"] for event in seen} <= {ours.id, later.id}
            await follower.say(type="subscribe", id="s", sandboxes=[theirs.id])
            assert (await follower.until("error", id="s"))["code"] == "SANDBOX_NOT_FOUND"
            await follower.say(type="command", id="c", command="request_files", sandbox=theirs.id)
            assert (await follower.until("error", id="c"))["code"] == "SANDBOX_NOT_FOUND"


async def test_a_scope_of_names_is_followed_by_name_and_others_are_not_there(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway:
        one, two = await gateway.cloche.create(), await gateway.cloche.create()
        token = gateway.token(Role.VIEWER, Scope(sandboxes=(one.id,)))
        async with following(gateway, None, token, from_=1) as follower:
            await two.run("true")
            await one.run("true")
            seen = await follower.events_until("command.completed")
            assert {event["sandbox_id"] for event in seen} == {one.id}
        for path, query in ((two.id, {}), ("nothing", {}), (None, {"sandboxes": two.id})):
            with pytest.raises(InvalidStatus) as refused:
                async with following(gateway, path, token, **query):
                    pass
            assert refused.value.response.status_code == 404
            assert b"SANDBOX_NOT_FOUND" in refused.value.response.body
