"""A clock that is an hour wrong, here or where it is stored: no age that wakes somebody is told by it."""

import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contracts import subjects
from contracts.events.node import VitalsNode
from contracts.streams import executor_consumer
from infra import clock
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.publisher import append
from infra.client.nodes import NodeHealth, nodes
from infra.journal import Journal
from infra.nodes import Sign
from infra.observing import catalogue, polling
from infra.observing.figures import Gauge
from infra.observing.lag import watch_lag
from infra.observing.nodes import Silences, watch_nodes
from infra.observing.queues import watch_ages
from tests.bus.servers import Server, nats_in, until
from tests.observing.test_waiting import order, running, value

HOUR = datetime.timedelta(hours=1)
VITALS = VitalsNode(sandboxes=0, max_sandboxes=1)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setattr(polling, "_is_read", True)
    monkeypatch.setattr(polling, "EVERY_S", 0.05)
    async with nats_in(tmp_path) as found:
        yield found


async def show_sign(bus: Bus, node: str, number: int) -> None:
    journal = Journal(bus, service="spawner", node=node)
    sign = journal.write(subjects.NO_SANDBOX, VITALS, id=f"{node}.vitals.{number}", scope=node)
    await bus.tell(subjects.node_vitals(node), sign.payload)


def is_young(figure: Gauge, name: str) -> bool:
    """And older than nothing, which it is before anybody has looked."""
    return 0 < (value(figure, name) or 0) < 60


@pytest.mark.parametrize("wrong_by", [HOUR, -HOUR], ids=["fast", "slow"])
async def test_whoever_looks_by_a_wrong_clock_sees_every_age_as_it_is(
    server: Server, monkeypatch: pytest.MonkeyPatch, wrong_by: datetime.timedelta
) -> None:
    spawner, executor, client = [await server.connect(user) for user in ("spawner", "executor", "client")]
    right = clock.now
    monkeypatch.setattr(clock, "now", lambda: right() + wrong_by)
    await show_sign(spawner, "far", 1)
    await order(client, 1)
    await append(executor, "cloche.log.sb.command.started.e", b"{}", "executor.1")
    everything = subjects.events_of(family="command", kind="started", scope="*")
    ages = watch_ages(spawner, [executor_consumer("local")])
    async with running(watch_nodes(spawner)), running(ages), running(watch_lag("far", executor, everything, lambda: 0)):
        await until(lambda: is_young(catalogue.node_silent, "far"))
        await until(lambda: is_young(catalogue.queue_oldest, "executor-local"))
        await until(lambda: is_young(catalogue.lag_seconds, "far"))
    (seen,) = await nodes(client)
    assert (seen.node, seen.health) == ("far", NodeHealth.ALIVE)
    assert 0 <= (seen.silent_s or 0) < 60


def sign(sequence: int, stored_at: datetime.datetime) -> Sign:
    text = stored_at.isoformat().replace("+00:00", "Z")
    return Sign(Entry(sequence, subjects.node_vitals("far"), b"", text, ""), VITALS)


def test_silence_is_counted_from_when_a_sign_was_heard_whatever_becomes_of_the_servers_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    passed = 0.0
    monkeypatch.setattr(clock, "steady", lambda: 1000.0 + passed)
    silences = Silences()
    assert silences.of("far", sign(7, now - datetime.timedelta(seconds=40)), now) == 40, "it was there before we were"
    passed = 15.0
    assert silences.of("far", sign(7, now - datetime.timedelta(seconds=40)), now + HOUR) == 55
    assert silences.of("far", sign(8, now - HOUR), now + HOUR) == 0, "a new one is heard, whatever time it has"
    passed = 45.0
    assert silences.of("far", sign(8, now - HOUR), now - HOUR) == 30
