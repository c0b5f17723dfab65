"""Whoever asked is in the log, and the trace that they asked in goes along."""

import base64
from pathlib import Path

from contracts import codec
from contracts.access import Principal, Role
from infra import asking
from infra.words.summaries import summary
from tests.gateway.access.rig import door_in
from tests.gateway.rig import gateway_in
from tests.services.node import node_in

ALICE = Principal(subject="alice", role=Role.OPERATOR)
BY_ORDER = (
    "sandbox.creating",
    "sandbox.started",
    "command.started",
    "tool.invoked",
    "sandbox.paused",
    "sandbox.resumed",
    "sandbox.snapshotted",
    "sandbox.network_changed",
    "sandbox.stopped",
    "sandbox.recovering",
    "sandbox.removed",
)


async def test_everything_that_an_order_begins_or_changes_says_who_asked(tmp_path: Path) -> None:
    asking.source.set(ALICE.source)
    async with node_in(tmp_path) as (_, cloche):
        box = await cloche.create({"network": {"mode": "restricted"}})
        assert (await box.run(["true"])).exit_code == 0
        await box.files.write("note", "x")
        await box.pause()
        await box.resume()
        await box.snapshot()
        await box.network(allowed_hosts=["example.com"])
        await box.stop()
        await box.recover()
        await box.remove()
        told = [(event.head, codec.decode_fact(event.head)) async for event in box.events(follow=False)]
        asked = {head.type: getattr(fact, "by", None) for head, fact in told if head.type in BY_ORDER}
        assert asked == dict.fromkeys(BY_ORDER, "gateway/alice")
        words = {head.type: summary(head) for head, _ in told if head.type in BY_ORDER}
        assert all(each.endswith("by alice") for each in words.values()), words


async def test_an_order_over_http_has_the_name_of_its_token_and_its_trace(tmp_path: Path) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with door_in(tmp_path) as gateway, gateway.client(gateway.token(subject="alice")) as client:
        given = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        made = await client.post("/api/v1/sandboxes", json={}, headers=given)
        assert made.status_code == 202, made.text
        async with await gateway.node.server.connect("admin") as admin:
            kept = (await admin.api("STREAM.MSG.GET.CLOCHE_COMMANDS", {"seq": 1}))["message"]
        command = codec.decode(base64.b64decode(kept["data"]), dict)
        assert (command["id"], command["source"]) == (made.json()["command"], "gateway/alice")
        assert f"traceparent: 00-{trace}-" in base64.b64decode(kept["hdrs"]).decode()


async def test_whatever_is_asked_over_http_says_by_whom(tmp_path: Path) -> None:
    async with gateway_in(tmp_path) as gateway, gateway.client(gateway.token(subject="alice")) as client:
        made = await client.post("/api/v1/sandboxes?wait=60", json={})
        assert made.status_code == 201, made.text
        here = f"/api/v1/sandboxes/{made.json()['sandbox']}"
        await client.post(f"{here}/commands?wait=60", json={"argv": ["true"]})
        await client.put(f"{here}/files/note", content=b"x")
        await client.post(f"{here}/stop?wait=60")
        box = await gateway.cloche.sandbox(made.json()["sandbox"])
        asked = {event.head.type: codec.decode(event.head.data, dict).get("by") async for event in box.events()}
        for kind in ("sandbox.creating", "command.started", "tool.invoked", "sandbox.stopped"):
            assert asked[kind] == "gateway/alice", kind
