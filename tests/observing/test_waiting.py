"""What waits: orders in queues, events before followers, messages in windows."""

import asyncio
import contextlib
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from contracts import subjects
from contracts.errors import Invalid
from contracts.events.node import NodeJoined, NodeLost, VitalsNode
from contracts.streams import COMMANDS_STREAM, LOG_STREAM, VITALS_STREAM, executor_consumer, spawner_consumer
from infra import asking
from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream
from infra.bus.publisher import append
from infra.bus.puller import Puller
from infra.journal import Journal
from infra.nodes import NodeLog
from infra.observing import catalogue, polling, tracing
from infra.observing.disk import watch_disk
from infra.observing.figures import Counter, Gauge, samples
from infra.observing.lag import watch_lag
from infra.observing.nodes import watch_nodes
from infra.observing.queues import watch_ages, watch_queue
from infra.observing.store import watch_store
from infra.settings import Tracing
from tests.bus.servers import Server, nats_in, until
from tests.services.node import ROOT, settings_in


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(polling, "_is_read", True)
    async with nats_in(tmp_path) as found:
        yield found


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def value(figure: Counter | Gauge, *labels: str) -> float | None:
    return dict(samples(figure)).get(labels)


async def order(bus: Bus, number: int) -> None:
    await append(bus, f"cloche.cmd.local.s{number}.command.run", b"{}", f"c-{number}", stream=COMMANDS_STREAM)


async def test_orders_that_nobody_takes_are_the_depth_of_their_queue_and_those_in_hand_are_not(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "EVERY_S", 0.05)
    client, executor = await server.connect("client"), await server.connect("executor")
    for number in range(3):
        await order(client, number)
    async with running(watch_queue(executor, executor_consumer("local"))):
        await until(lambda: value(catalogue.queue_depth, "executor-local") == 3)
        assert value(catalogue.queue_unsettled, "executor-local") == 0
        puller = Puller(executor, COMMANDS_STREAM, "executor-local")
        async with puller.open():
            await puller.next()
            await until(lambda: value(catalogue.queue_unsettled, "executor-local") == 1)
            await until(lambda: value(catalogue.queue_depth, "executor-local") == 2)


async def test_an_order_that_nobody_takes_grows_old_until_it_is_settled(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "EVERY_S", 0.05)
    client, executor = await server.connect("client"), await server.connect("executor")
    await order(client, 1)
    watched = (executor_consumer("local"), spawner_consumer("local"))
    async with running(watch_ages(await server.connect("spawner"), watched)):
        await until(lambda: (value(catalogue.queue_oldest, "executor-local") or 0) > 0.2)
        puller = Puller(executor, COMMANDS_STREAM, "executor-local")
        async with puller.open():
            taken = await puller.next()
            before = value(catalogue.queue_oldest, "executor-local") or 0
            await until(lambda: (value(catalogue.queue_oldest, "executor-local") or 0) > before)
            await taken.ack()
            await until(lambda: value(catalogue.queue_oldest, "executor-local") == 0)
    assert value(catalogue.queue_oldest, "spawner-local") == 0


async def test_a_node_is_silent_until_it_is_drained_or_told_as_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "EVERY_S", 0.05)
    bus = await server.connect("spawner")
    journal, log = Journal(bus, service="spawner", node="n1"), NodeLog(bus)
    sign = journal.write(subjects.NO_SANDBOX, VitalsNode(sandboxes=0, max_sandboxes=1), id="n2.vitals.1", scope="n2")
    await bus.tell(subjects.node_vitals("n2"), sign.payload)
    await log.tell(journal, "n3", NodeJoined(node="n3"))
    async with running(watch_nodes(bus)):
        await until(lambda: (value(catalogue.node_silent, "n2") or 0) > 0.2)
        assert value(catalogue.node_silent, "n3") == 3600
        await log.tell(journal, "n3", NodeLost(node="n3", reason="test", noticed_by="n1"))
        await until(lambda: value(catalogue.node_silent, "n3") is None)
        assert value(catalogue.node_silent, "n2") is not None


async def test_only_what_a_follower_reads_is_its_lag(server: Server) -> None:
    bus = await server.connect("executor")
    for number, kind in enumerate(("started", "output", "output", "completed")):
        await append(bus, f"cloche.log.sb.command.{kind}.e", b"{}", f"executor.{number}")
    outputs = subjects.events_of(family="command", kind="output", scope="*")
    async with running(watch_lag("outputs", bus, outputs, lambda: 2)):
        await until(lambda: value(catalogue.lag_events, "outputs") == 1)
    assert (value(catalogue.lag_seconds, "outputs") or 0) > 0
    async with running(watch_lag("outputs", bus, outputs, lambda: 3)):
        await until(lambda: value(catalogue.lag_events, "outputs") == 0)


async def test_the_size_of_the_store_is_the_servers_own_count(server: Server) -> None:
    await append(await server.connect("executor"), "cloche.log.sb.command.started.e", b"{}", "executor.1")
    bus = await server.connect("replay")
    bus.realm = "acme"
    async with running(watch_store(bus)):
        await until(lambda: value(catalogue.store_messages, "acme/OBJ_cloche_blobs") == 0)
    for name in (LOG_STREAM, VITALS_STREAM):
        info = await bus.api(f"STREAM.INFO.{name}")
        assert value(catalogue.store_bytes, f"acme/{name}") == info["state"]["bytes"]
        assert value(catalogue.store_messages, f"acme/{name}") == info["state"]["messages"]
        assert value(catalogue.store_limit, f"acme/{name}") == max(info["config"]["max_bytes"], 0)
    assert value(catalogue.store_messages, f"acme/{LOG_STREAM}") == 1
    assert value(catalogue.store_limit, f"acme/{VITALS_STREAM}") == 256 * 1024**2


async def test_the_disk_is_that_of_the_data_folder_and_one_that_is_gone_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(polling, "_is_read", True)
    async with running(watch_disk(tmp_path)):
        await until(lambda: value(catalogue.disk_size) == shutil.disk_usage(tmp_path).total)
    assert 0 < (value(catalogue.disk_free) or 0) <= (value(catalogue.disk_size) or 0)
    with caplog.at_level("DEBUG", "infra.observing.polling"):
        async with running(watch_disk(tmp_path / "gone")):
            await until(lambda: "not known now" in caplog.text)


async def test_a_window_is_counted_while_it_is_used_and_not_after(server: Server) -> None:
    bus = await server.connect("executor")
    used, stored = catalogue.window_used.of("executor"), catalogue.events_stored.of("command", "output")
    waits = catalogue.window_full.of("executor")
    before = (used.value, stored.value, waits.value)
    async with OutStream(bus, window=2) as out:
        for number in range(10):
            await out.send("cloche.log.sb.command.output.e", b"{}", f"executor.w{number}")
            assert used.value - before[0] <= 2
    assert (used.value, stored.value) == (before[0], before[1] + 10)
    assert waits.value > before[2]
    left = OutStream(bus)
    await left.send("cloche.log.sb.command.output.e", b"{}", "executor.left")
    await left.aclose()
    assert used.value == before[0]


async def test_nobody_is_asked_where_nobody_reads(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_is_read", False)
    await watch_queue(await server.connect("executor"), executor_consumer("local"))


def test_a_service_imports_neither_library_before_somebody_wants_it() -> None:
    modules = "services.executor.app, services.spawner.app, services.cli.supervision, infra.client"
    code = f"import sys, {modules}; print([n for n in ('prometheus_client', 'opentelemetry.sdk') if n in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == "[]"


async def test_an_endpoint_without_the_library_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "infra.observing.otlp", None)
    settings = settings_in(tmp_path, CLOCHE_TRACING="http://127.0.0.1:1")
    with pytest.raises(Invalid, match=r"cloche\[otel\]"):
        async with tracing.exporting(settings):
            pass
    assert settings.tracing == Tracing(endpoint="http://127.0.0.1:1")


async def test_a_collector_that_is_away_is_nobodys_trouble(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, CLOCHE_TRACING="http://127.0.0.1:1")
    token = asking.traceparent.set(f"00-{'ab' * 16}-{'cd' * 8}-01")
    try:
        async with tracing.exporting(settings):
            with tracing.step("x", {}):
                pass
    finally:
        asking.traceparent.reset(token)
