"""Signs of life, read and followed as a client, from a real server."""

import asyncio
import contextlib
import datetime
from pathlib import Path

import pytest

from contracts import subjects
from contracts.errors import Unavailable
from contracts.events.health import VitalsHeartbeat, VitalsMetrics
from contracts.message import Fact
from infra.bus.connection import Bus
from infra.client.vitals import Vitals, follow, newest
from infra.journal import Journal
from tests.bus.servers import nats_in, until

AT = datetime.datetime(2026, 5, 1, 9, 0, tzinfo=datetime.UTC)


def metrics(processes: int = 1) -> VitalsMetrics:
    return VitalsMetrics(cpu_percent=1.5, memory_bytes=100, processes=processes, disk_bytes=7)


async def tell(bus: Bus, sandbox: str, fact: Fact, *, second: int = 0, stored: bool = True) -> None:
    """`stored`: not before the server has it, and all that was told before."""
    kind = "metrics" if isinstance(fact, VitalsMetrics) else "heartbeat"
    journal = Journal(bus, service="health_monitor", node="local")
    at = AT + datetime.timedelta(seconds=second)
    written = journal.write(sandbox, fact, id=f"{sandbox}.{kind}.{second}", time=at)
    await (bus.request if stored else bus.tell)(subjects.vitals(sandbox, kind), written.payload)


async def test_the_newest_of_a_thousand_sandboxes_are_found_in_a_few_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_in(tmp_path) as server:
        monitor, client = await server.connect("health_monitor"), await server.connect("client")
        names = [f"sb-{number}" for number in range(1000)]
        for name in names:
            await tell(monitor, name, metrics(1), stored=False)
            await tell(monitor, name, metrics(2), second=1, stored=False)
            await tell(monitor, name, VitalsHeartbeat(status="running"), second=2, stored=name == names[-1])
        sent = []
        send = client.replies.send

        async def counting(*arguments: object, **named: object) -> object:
            sent.append(arguments)
            return await send(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(client.replies, "send", counting)
        found = await newest(client, [*names, "nobody"])
        assert len(sent) <= 3
        assert set(found) == set(names)
        expected = Vitals(
            beat_at=AT + datetime.timedelta(seconds=2),
            metrics=metrics(2),
            measured_at=AT + datetime.timedelta(seconds=1),
        )
        assert set(map(repr, found.values())) == {repr(expected)}
        assert await newest(client, []) == {}


async def test_what_comes_is_followed_through_a_killed_server(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        monitor, client = await server.connect("health_monitor"), await server.connect("client")
        known: dict[str, Vitals] = {}
        following = asyncio.create_task(follow(client, known, lambda: ["a", "b"]))
        try:
            await tell(monitor, "a", metrics(1))
            await until(lambda: known.get("a", Vitals()).metrics == metrics(1))
            await server.kill_and_wait()
            await _patiently(monitor, "b", metrics(5))
            await until(lambda: known.get("b", Vitals()).metrics == metrics(5))
            await _patiently(monitor, "b", metrics(6), second=1)
            await until(lambda: known["b"].metrics == metrics(6))
            # Late, and of the past.
            await _patiently(monitor, "b", metrics(4))
            await _patiently(monitor, "a", metrics(9), second=9)
            await until(lambda: known["a"].metrics == metrics(9))
            assert known["b"].metrics == metrics(6)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def _patiently(bus: Bus, sandbox: str, fact: Fact, *, second: int = 0) -> None:
    for _ in range(50):
        await bus.wait_connected()
        with contextlib.suppress(Unavailable):
            return await tell(bus, sandbox, fact, second=second)
    raise AssertionError("the server did not come back")


async def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        monitor, client = await server.connect("health_monitor"), await server.connect("client")
        await monitor.request(subjects.vitals("a", "metrics"), b'{"specversion":"1.0"')
        await monitor.request(subjects.vitals("b", "heartbeat"), b"\xff")
        assert await newest(client, ["a", "b"]) == {}
