"""The ack-lost fault: stored, but the publisher is told nothing, or that it failed. Nothing is stored twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.bus import out_stream, publisher, reader
from infra.bus.connection import Bus, connect
from infra.bus.out_stream import OutStream
from infra.bus.publisher import Ack, Expect, append
from tests.bus.servers import Server, nats_in, until
from tests.cluster_faults.ack_proxy import AckProxy, Mode

SUBJECT = "cloche.log.sb.command.output.e"
SECOND = 1_000_000_000


@contextlib.asynccontextmanager
async def publishing(server: Server) -> AsyncIterator[tuple[Bus, AckProxy]]:
    async with AckProxy(server.embedded.port).open() as proxy:
        url = f"nats://127.0.0.1:{proxy.port}"
        async with await connect(url, "executor", server.password("executor"), "publisher") as bus:
            yield bus, proxy


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (publisher, out_stream):
        monkeypatch.setattr(module, "ACK_TIMEOUT_S", 0.2)


async def stored(bus: Bus) -> list[str]:
    return [entry.msg_id async for entry in reader.read(bus, ["cloche.log.sb.>"], 1, follow=False)]


async def forgets_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server remembers ids for a tenth of a second, and publishers know that it does not remember long."""
    admin = await server.connect("admin")
    config = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
    await admin.api("STREAM.UPDATE.CLOCHE_LOG", config | {"duplicate_window": SECOND // 10})
    for module in (publisher, out_stream):
        monkeypatch.setattr(module, "DEDUPE_SAFE_S", 0.05)


@pytest.mark.parametrize("mode", [Mode.SWALLOW, Mode.REFUSE])
async def test_a_lost_acknowledgement_stores_nothing_twice(tmp_path: Path, mode: Mode) -> None:
    async with nats_in(tmp_path) as server, publishing(server) as (bus, proxy):
        proxy.mode = mode
        task = asyncio.create_task(append(bus, SUBJECT, b"{}", "once"))
        await until(lambda: proxy.struck >= 2)
        proxy.mode = Mode.PASS
        assert await task == Ack(1, True)
        assert await stored(bus) == ["once"]


@pytest.mark.parametrize("mode", [Mode.SWALLOW, Mode.REFUSE])
async def test_a_guarded_fact_whose_acknowledgement_is_lost_has_won_its_guard(tmp_path: Path, mode: Mode) -> None:
    async with nats_in(tmp_path) as server, publishing(server) as (bus, proxy):
        proxy.mode = mode
        task = asyncio.create_task(append(bus, SUBJECT, b"{}", "once", expect=Expect(SUBJECT, 0)))
        await until(lambda: proxy.struck >= 1)
        proxy.mode = Mode.PASS
        assert await task == Ack(1, True)
        assert await stored(bus) == ["once"]


@pytest.mark.parametrize("mode", [Mode.SWALLOW, Mode.REFUSE])
async def test_a_stream_of_output_is_whole_and_in_order(tmp_path: Path, mode: Mode) -> None:
    async with nats_in(tmp_path) as server, publishing(server) as (bus, proxy):

        async def heal() -> None:
            await until(lambda: proxy.struck >= 12)
            proxy.mode = Mode.PASS

        async with OutStream(bus, window=8) as out, asyncio.TaskGroup() as tasks:
            for number in range(40):
                if number == 20:
                    proxy.mode = mode
                    tasks.create_task(heal())
                await out.send(SUBJECT, b"{}", f"m{number}")
            await out.flush()
        assert await stored(bus) == [f"m{number}" for number in range(40)]


async def test_beyond_the_servers_memory_of_ids_the_log_is_asked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_in(tmp_path) as server, publishing(server) as (bus, proxy):
        await forgets_at_once(server, monkeypatch)
        proxy.mode = Mode.SWALLOW
        task = asyncio.create_task(append(bus, SUBJECT, b"{}", "once"))
        # The first is answered too late, the log is asked before there is a second.
        assert await task == Ack(1, True)
        assert (await stored(bus), proxy.struck) == (["once"], 1)


async def test_beyond_the_servers_memory_of_ids_a_stream_of_output_is_whole_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_in(tmp_path) as server, publishing(server) as (bus, proxy):
        await forgets_at_once(server, monkeypatch)
        proxy.mode = Mode.SWALLOW
        async with OutStream(bus, window=8) as out:
            for number in range(20):
                await out.send(SUBJECT, b"{}", f"m{number}")
            await out.flush()
        assert proxy.struck >= 8
        assert await stored(bus) == [f"m{number}" for number in range(20)]
