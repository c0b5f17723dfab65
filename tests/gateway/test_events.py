"""Events over HTTP, and what people say to agents, with a real node behind."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.gateway.rig import Gateway, gateway_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = "/api/v1/sandboxes/sb"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with gateway_in(tmp_path_factory.mktemp("gateway"), "agent") as found:
        await found.cloche.create(id="sb")
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as found:
        yield found


async def begun(client: httpx.AsyncClient, *steps: dict[str, Any], **more: Any) -> str:
    """A run of the script agent; returns its id."""
    order = {"runtime": "script", "prompt": "play", "options": {"script": json.dumps(steps)}, **more}
    answer = await client.post(f"{HERE}/agent?wait=60", json=order)
    assert answer.status_code == 200, answer.text
    run: str = answer.json()["event"]["data"]["run"]
    return run


async def until(gateway: Gateway, kind: str, run: str) -> dict[str, Any]:
    """The data of the first event of a run that is of this kind."""
    sandbox = await gateway.cloche.sandbox("sb")
    async for event in sandbox.events(types=[kind], follow=True):
        data: dict[str, Any] = json.loads(event.raw)["data"]
        if data["run"] == run:
            return data
    raise AssertionError("the log has ended")


async def test_every_event_is_had_once_and_in_order_page_by_page(gateway: Gateway, client: httpx.AsyncClient) -> None:
    sandbox = await gateway.cloche.sandbox("sb")
    await sandbox.run("seq 3")
    expected = [(event.sequence, json.loads(event.raw)) async for event in sandbox.events()]
    found: list[tuple[int, Any]] = []
    cursor, more = 1, True
    while more:
        page = (await client.get(f"{HERE}/events?from={cursor}&limit=2")).json()
        found += [(each["sequence"], each["event"]) for each in page["events"]]
        assert len(page["events"]) <= 2
        cursor, more = page["next"], page["more"]
    assert found[: len(expected)] == expected
    assert cursor > found[-1][0]


async def test_the_cursor_of_an_empty_page_goes_on_from_the_head(client: httpx.AsyncClient) -> None:
    page = (await client.get(f"{HERE}/events?type=guardian")).json()
    assert (page["events"], page["more"]) == ([], False)
    assert page["next"] == page["head_sequence"] + 1


async def test_a_cursor_that_the_log_does_not_reach_is_told_and_leads_back(client: httpx.AsyncClient) -> None:
    for query in ("from=1000000", "since=999999"):
        page = (await client.get(f"{HERE}/events?{query}")).json()
        end = page["head_sequence"]
        assert page["lacking"] == [{"first_sequence": end + 1, "last_sequence": 999_999}]
        assert (page["events"], page["next"], page["more"]) == ([], end + 1, False)
    assert (await client.get(f"{HERE}/events?from={end + 1}")).json()["lacking"] == []


async def test_events_are_chosen_by_type_and_time(gateway: Gateway, client: httpx.AsyncClient) -> None:
    sandbox = await gateway.cloche.sandbox("sb")
    for _ in range(3):
        await sandbox.run("true")
    page = (await client.get(f"{HERE}/events?type=command.started&type=sandbox&limit=1000")).json()
    kinds = {each["event"]["type"] for each in page["events"]}
    assert "command.started" in kinds
    assert all(kind == "command.started" or kind.startswith("sandbox.") for kind in kinds)
    listed = (await client.get(f"{HERE}/events?type=command.started,sandbox&limit=1000&from=0")).json()
    assert listed["events"] == page["events"]
    last = page["events"][-1]["event"]["time"]
    await sandbox.run("true")
    later = (await client.get(f"{HERE}/events", params={"type": "command.started", "since": last})).json()
    assert [each["event"]["type"] for each in later["events"]] in (
        ["command.started"],
        ["command.started", "command.started"],
    )
    everything = (await client.get(f"{HERE}/events?since=2000-01-01T00:00:00Z&limit=1")).json()
    assert everything["events"][0]["event"]["type"] == "sandbox.creating"


@pytest.mark.parametrize(
    "query",
    [
        "from=-1",
        "from=x",
        "limit=0",
        "limit=1001",
        "since=yesterday",
        "type=no.such.type",
        "type=*",
        f"type={'a,' * 30}a",
    ],
)
async def test_a_query_out_of_its_bounds_is_refused(client: httpx.AsyncClient, query: str) -> None:
    refused = await client.get(f"{HERE}/events?{query}")
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")
    assert ("family" if query == "type=*" else query.partition("=")[0]) in refused.json()["detail"]


async def test_an_agent_is_begun_told_something_and_ended(gateway: Gateway, client: httpx.AsyncClient) -> None:
    run = await begun(client, {"say": "ready"}, keep_open=True)
    await until(gateway, "agent.waiting", run)
    told = await client.post(f"{HERE}/messages?wait=60", json={"text": "hello"})
    assert (told.status_code, told.json()["event"]["type"]) == (200, "user.message")
    assert (told.json()["event"]["data"]["run"], told.json()["event"]["data"]["text"]) == (run, "hello")
    assert (await until(gateway, "agent.delivered", run))["kind"] == "message"
    ended = await client.delete(f"{HERE}/agent?wait=60&reason=enough")
    assert (ended.status_code, ended.json()["event"]["type"]) == (200, "user.stop")
    assert (await until(gateway, "agent.completed", run))["reason"].startswith("stopped")


async def test_a_question_of_an_agent_is_approved_or_rejected(gateway: Gateway, client: httpx.AsyncClient) -> None:
    for word, kind in (("approve", "user.approve"), ("reject", "user.reject")):
        run = await begun(client, {"run": "true"}, approvals=[{"tool": "*", "verdict": "ask"}])
        approval = (await until(gateway, "agent.approval_requested", run))["approval"]
        body = {"type": word, "approval": approval, "reason": "because"}
        answer = await client.post(f"{HERE}/events?wait=60", json=body)
        assert (answer.status_code, answer.json()["event"]["type"]) == (200, kind)
        await until(gateway, "agent.completed", run)
        again = await client.post(f"{HERE}/events?wait=60", json=body)
        assert again.status_code in (400, 409)


@pytest.mark.parametrize("place", ["events", "messages"])
async def test_an_agent_is_guided_interrupted_paused_resumed_and_stopped(
    gateway: Gateway, client: httpx.AsyncClient, place: str
) -> None:
    run = await begun(client, {"run": "sleep 1000"}, keep_open=True)
    said = [
        ({"type": "guidance", "text": "slower"}, "user.guidance"),
        ({"type": "guardian_intervention", "text": "look"}, "user.guidance"),
        ({"type": "pause"}, "user.pause"),
        ({"type": "resume"}, "user.resume"),
        ({"type": "interrupt", "reason": "wait"}, "user.interrupt"),
        ({"type": "user.message", "text": "go on"}, "user.message"),
        ({"type": "stop"}, "user.stop"),
    ]
    for body, kind in said:
        answer = await client.post(f"{HERE}/{place}?wait=60", json=body)
        assert (answer.status_code, answer.json()["event"]["type"]) == (200, kind), answer.text
        assert answer.json()["event"]["data"]["run"] == run
    await until(gateway, "agent.completed", run)


async def test_the_same_key_is_said_once(gateway: Gateway, client: httpx.AsyncClient) -> None:
    run = await begun(client, {"say": "ready"}, keep_open=True)
    await until(gateway, "agent.waiting", run)
    asked = {"json": {"text": "once"}, "headers": {"idempotency-key": "said-1"}}
    answers = [await client.post(f"{HERE}/messages?wait=60", **asked) for _ in range(2)]  # type: ignore[arg-type]
    assert len({each.json()["sequence"] for each in answers}) == 1
    await client.delete(f"{HERE}/agent?wait=60")
    await until(gateway, "agent.completed", run)


async def test_words_to_nobody_are_refused(client: httpx.AsyncClient) -> None:
    refused = await client.post(f"{HERE}/messages?wait=60", json={"text": "hello?"})
    assert (refused.status_code, refused.json()["code"]) == (409, "SANDBOX_INVALID_STATE")
    accepted = await client.post(f"{HERE}/messages", json={"text": "hello?"})
    assert (accepted.status_code, set(accepted.json())) == (202, {"sandbox", "command"})
    network = await client.post(f"{HERE}/events?wait=60", json={"type": "network.approve", "approval": "ask-1"})
    assert (network.status_code, network.json()["code"]) == (400, "INVALID")


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"type": None, "text": "x"},
        {"type": "agent.message", "text": "forged"},
        {"type": "user.message"},
        {"type": "user.message", "text": ""},
        {"type": "user.message", "text": "x", "by": "guardian"},
        {"type": "approve", "approval": "not a token"},
    ],
)
async def test_what_cannot_be_said_is_refused(client: httpx.AsyncClient, body: object) -> None:
    for place in ("events", "messages"):
        refused = await client.post(f"{HERE}/{place}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID")


async def test_a_run_that_cannot_begin_says_why(client: httpx.AsyncClient) -> None:
    refused = await client.post(f"{HERE}/agent?wait=60", json={"runtime": "no-such-runtime", "prompt": "x"})
    assert refused.status_code in (400, 501)
    assert "no-such-runtime" in refused.json()["detail"]
