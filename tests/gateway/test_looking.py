"""A sandbox at any moment over HTTP: state, terminals, network, figures, exports."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from contracts import subjects
from contracts.events.health import VitalsMetrics
from infra.access import open_as
from infra.client import Sandbox
from infra.journal import Journal
from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = "/api/v1/sandboxes/sb"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    data = tmp_path_factory.mktemp("gateway")
    (data / "cloche.toml").write_text("[intervals]\nhealth_s = 0.5\n")
    async with gateway_in(data) as found:
        await found.cloche.create(id="sb")
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(gateway: Gateway) -> Sandbox:
    return await gateway.cloche.sandbox("sb")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as found:
        yield found


async def test_the_state_of_any_moment(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    first = await sandbox.run("true")
    await sandbox.run("true")
    now = (await client.get(f"{HERE}/state")).json()
    then = (await client.get(f"{HERE}/state?at={first.sequence}")).json()
    assert then["sequence"] == first.sequence
    assert then["state"]["commands"] == now["state"]["commands"] - 1
    by_time = (await client.get(f"{HERE}/state", params={"at": now["time"]})).json()
    assert by_time["state"]["commands"] <= now["state"]["commands"]


@pytest.mark.parametrize("at", ["0", "-1", "yesterday", "999999999", "2026-99-99T00:00:00Z", "2026-01-01"])
@pytest.mark.parametrize("what", ["state", "terminal", "network", "files", "files/x"])
async def test_a_moment_that_is_none_is_refused(client: httpx.AsyncClient, what: str, at: str) -> None:
    refused = await client.get(f"{HERE}/{what}?at={at}")
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID"), refused.text


async def test_what_a_terminal_showed_at_any_moment(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    first = await sandbox.run("echo first")
    second = await sandbox.run("seq 100")
    now = (await client.get(f"{HERE}/terminal?lines=50")).json()
    assert (now["exec"], now["lines"][-2], len(now["scrollback"])) == (second.exec, "100", 50)
    then = (await client.get(f"{HERE}/terminal?at={first.sequence}")).json()
    assert (then["exec"], then["lines"][0], then["scrollback"]) == (first.exec, "first", [])
    named = (await client.get(f"{HERE}/terminal?exec={first.exec}")).json()
    assert named["lines"][0] == "first"
    nobody = await client.get(f"{HERE}/terminal?exec=nobody")
    assert (nobody.status_code, nobody.json()["code"]) == (400, "INVALID")


async def test_what_it_may_reach_and_what_it_asked_for(gateway: Gateway, client: httpx.AsyncClient) -> None:
    await gateway.cloche.create({"network": {"mode": "none"}}, id="sealed")
    view = (await client.get("/api/v1/sandboxes/sealed/network")).json()
    assert view["network"]["mode"] == "none"
    assert view["approvals"] == {"pending": [], "answers": []}
    assert view["traffic"]["requests"] == []
    curious = await gateway.cloche.create({"network": {"mode": "restricted", "allowed_hosts": []}}, id="curious")
    before = (await client.get("/api/v1/sandboxes/curious/network")).json()
    await curious.run("curl -s https://example.com; true")
    async for event in curious.events(types=["network.denied"], follow=True):
        after = (await client.get(f"/api/v1/sandboxes/curious/network?at={event.sequence}")).json()
        break
    assert [(each["host"], each["allowed"]) for each in after["traffic"]["requests"]] == [("example.com", False)]
    then = (await client.get(f"/api/v1/sandboxes/curious/network?at={before['sequence']}")).json()
    assert then["traffic"]["requests"] == []


async def test_what_it_uses_now_and_lately(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while len((await client.get(f"{HERE}/metrics")).json()["recent"]) < 3:
            await asyncio.sleep(0.1)
    found = (await client.get(f"{HERE}/metrics?minutes=60&limit=2")).json()
    assert (found["sandbox"], found["health"], len(found["recent"])) == ("sb", "healthy", 2)
    assert found["current"]["at"] >= found["recent"][-1]["at"] > found["recent"][0]["at"]
    assert found["recent"][-1]["use"]["memory_bytes"] > 0
    assert (await client.get(HERE)).json()["last_heartbeat_at"] >= found["beat_at"]
    # One may just have been measured.
    assert len((await client.get(f"{HERE}/metrics?minutes=0.0001")).json()["recent"]) <= 1


async def test_the_newest_is_told_of_more_than_one_answer_holds(gateway: Gateway, client: httpx.AsyncClient) -> None:
    busy = await gateway.cloche.create(id="busy")
    await busy.stop()
    async with open_as(gateway.settings, "health_monitor") as bus:
        journal = Journal(bus, service="health_monitor", node=gateway.settings.node)
        for number in range(2100):
            use = VitalsMetrics(cpu_percent=0, memory_bytes=1, processes=number, disk_bytes=0)
            written = journal.write(busy.id, use, id=f"busy.metrics.{number}")
            await bus.tell(subjects.vitals(busy.id, "metrics"), written.payload)
    async with asyncio.timeout(30):
        while True:
            one = (await client.get("/api/v1/sandboxes/busy/metrics?limit=1")).json()
            if one["current"] and one["current"]["use"]["processes"] == 2099:
                break
    assert one["recent"] == [one["current"]]
    for limit in (2, 1000):
        many = (await client.get(f"/api/v1/sandboxes/busy/metrics?limit={limit}")).json()["recent"]
        assert [each["use"]["processes"] for each in many] == list(range(2100 - limit, 2100))
    assert (await client.get("/api/v1/sandboxes/busy/metrics?limit=1&minutes=0.0001")).json()["recent"] == []


async def test_a_session_is_exported_as_lines(client: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.run("echo kept > kept.txt")
    await sandbox.flush()
    lines = (await client.get(f"{HERE}/export")).content.splitlines()
    head, end = json.loads(lines[0]), json.loads(lines[-1])
    assert (head["sandbox"], head["log"] != "") == ("sb", True)
    assert end["events"] > 0
    assert end["blobs"] >= 1
    without = (await client.get(f"{HERE}/export?contents=false&to={head['last_sequence']}")).content.splitlines()
    assert json.loads(without[-1])["blobs"] == 0


async def test_a_session_is_exported_as_a_cast_and_as_a_page_that_no_browser_opens_here(
    client: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    result = await sandbox.run("echo '<script>alert(1)</script>'")
    cast = await client.get(f"{HERE}/export?format=cast&exec={result.exec}")
    assert json.loads(cast.content.splitlines()[0])["version"] == 3
    for name, version in (("asciicast", 3), ("asciicast-v2", 2)):
        same = await client.get(f"{HERE}/export?format={name}&exec={result.exec}")
        assert json.loads(same.content.splitlines()[0])["version"] == version
        assert 'filename="sb.cast"' in same.headers["content-disposition"]
    page = await client.get(f"{HERE}/export?format=html")
    assert page.content.startswith(b"<!doctype html>")
    for answer in (cast, page):
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize(
    ("query", "status"), [("format=pdf", 400), ("from=999999999", 400), ("to=x", 400), ("exec=nobody", 404)]
)
async def test_an_export_of_nothing_is_refused(client: httpx.AsyncClient, query: str, status: int) -> None:
    refused = await client.get(f"{HERE}/export?{query}")
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"
    assert {"format=pdf": "format: Invalid enum value 'pdf': one of jsonl, asciicast", "to=x": "to: neither"}.get(
        query, ""
    ) in refused.json()["detail"]
