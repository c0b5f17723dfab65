"""From a request at the gateway to the end of a process, one trace, whoever dies in between."""

from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
import pytest_asyncio

from tests.gateway.rig import Gateway, gateway_in
from tests.observing.collector import Collector, Seen, collecting

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = "/api/v1/sandboxes/sb"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> AsyncIterator[Gateway]:
    data = tmp_path_factory.mktemp("traced")
    async with gateway_in(data, "agent", CLOCHE_TRACING=f"http://127.0.0.1:{collector.port}") as found:
        await found.cloche.create(id="sb")
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as found:
        yield found


async def test_a_sandbox_is_traced_from_the_request_to_its_provider(
    client: httpx.AsyncClient, collector: Collector
) -> None:
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    asked = {"json": {"id": "made"}, "headers": {"traceparent": f"00-{trace}-{span}-01"}}
    answer = await client.post("/api/v1/sandboxes?wait=60", **asked)  # type: ignore[arg-type]
    assert answer.status_code in (200, 201), answer.text
    started, request, _ = [
        await collector.until(partial(is_called, name, trace))
        for name in ("provider start", "POST /api/v1/sandboxes", "take sandbox.create")
    ]
    assert request.parent == span
    assert collector.above(started) == ["take sandbox.create", "order sandbox.create", "POST /api/v1/sandboxes"]


def is_called(name: str, trace: str, span: Seen) -> bool:
    return (span.name, span.trace) == (name, trace)


async def test_a_process_ends_in_the_trace_of_its_request_though_the_executor_was_killed(
    gateway: Gateway, client: httpx.AsyncClient, collector: Collector
) -> None:
    accepted = await client.post(f"{HERE}/commands", json={"shell": "read line; exit 3", "stdin": True})
    assert accepted.status_code == 202, accepted.text
    exec_, trace = accepted.json()["exec"], accepted.headers["traceparent"].split("-")[1]
    route = f"POST {HERE.replace('/sb', '/{sandbox_id}')}/commands"
    chain = ["keeper start", "take command.run", "order command.run", route]
    for name in chain:
        await collector.until(partial(is_called, name, trace))
    await gateway.node.restart("executor")
    assert (await client.post(f"{HERE}/commands/{exec_}/input", json={"data": "x\n"})).status_code == 202
    ended = await collector.until(lambda each: each.name == "process" and each.said["cloche.command"] == exec_)
    assert ended.trace == trace
    assert collector.above(ended) == chain
    assert ended.said["process.exit.code"] == 3
    assert (ended.service, collector.of(ended.parent).service) == ("executor", "executor")
    assert [each.service for each in collector.spans if each.trace == trace and each.name == route] == ["gateway"]
    detail = (await client.get(f"{HERE}/commands/{exec_}?wait=60")).json()
    # The process's own time, and not that of the executor that happened to tell of it.
    assert (ended.end_ns - ended.start_ns) / 1e6 == pytest.approx(detail["duration_ms"], abs=2000)


async def test_what_nobody_wants_traced_is_not(client: httpx.AsyncClient, collector: Collector) -> None:
    trace = "1af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-00"}
    await client.post(f"{HERE}/commands?wait=60", json={"argv": ["true"]}, headers=headers)
    last = await client.post(f"{HERE}/commands?wait=60", json={"argv": ["true"]})
    await collector.until(lambda each: each.name == "process" and each.said["cloche.command"] == last.json()["exec"])
    assert not [each for each in collector.spans if each.trace == trace]


async def test_a_run_and_what_it_does_are_in_the_trace_of_its_request_though_the_agent_service_was_killed(
    gateway: Gateway, client: httpx.AsyncClient, collector: Collector
) -> None:
    script = "- run: echo first\n- wait:\n    message: true\n- run: echo second\n"
    order = {"runtime": "script", "prompt": "x", "options": {"script": script}}
    begun = await client.post(f"{HERE}/agent?wait=60", json=order)
    assert begun.status_code == 200, begun.text
    trace = begun.headers["traceparent"].split("-")[1]
    await collector.until(lambda each: each.service == "agent" and each.name.startswith("tool "))
    await gateway.node.restart("agent")
    assert (await client.post(f"{HERE}/messages", json={"text": "go on"})).status_code == 202
    whole = await collector.until(lambda each: each.name == "agent run")
    calls = [each for each in collector.spans if each.name.startswith("tool ")]
    first = await collector.until(partial(is_called, "process", trace))
    second = await collector.until(lambda each: is_called("process", trace, each) and each.id != first.id)
    assert whole.trace == trace
    assert collector.above(whole)[0] == "take agent.start"
    assert {each.parent for each in calls} == {whole.id}
    assert len({each.id for each in calls}) >= 2
    assert all("agent run" in collector.above(each) for each in (first, second))
