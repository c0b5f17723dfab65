"""Every append is stored once, in order, whatever happens to the server."""

import asyncio
import random
from pathlib import Path

import pytest

from contracts.errors import Conflict, Invalid, Unavailable
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.errors import Denied
from infra.bus.out_stream import OutStream
from infra.bus.publisher import Expect, append, find
from tests.bus.servers import nats_in, stored, until

LIFECYCLE = "cloche.log.sb.sandbox.*"


async def _told(bus: Bus, subject: str) -> list[bytes]:
    return [entry.data async for entry in reader.read(bus, [subject], 1, follow=False)]


async def test_an_append_repeated_under_its_id_is_one_message(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        once = await append(bus, "cloche.log.sb.sandbox.created", b"1", "x")
        again = await append(bus, "cloche.log.sb.sandbox.created", b"1", "x")
        assert (once.duplicate, again.duplicate) == (False, True)
        assert once.seq == again.seq == 1


async def test_an_id_that_somebody_else_has_used_keeps_nothing_out(tmp_path: Path) -> None:
    """The server knows an id for the whole stream, whoever used it on whatever subject."""
    subject = "cloche.log.sb.command.completed.e"
    async with nats_in(tmp_path) as server:
        guardian, executor = await server.connect("guardian"), await server.connect("executor")
        await append(guardian, "cloche.log.sb.guardian.finding", b"{}", "e.completed")
        lives = [await append(executor, subject, b"2", "e.completed") for _ in range(2)]
        assert [ack.duplicate for ack in lives] == [False, True]
        assert lives[0].seq == lives[1].seq == await find(executor, subject, "e.completed")
        assert await _told(executor, subject) == [b"2"]


async def test_a_stream_goes_on_past_ids_that_somebody_else_has_used(tmp_path: Path) -> None:
    subject = "cloche.log.sb.command.output.e"
    async with nats_in(tmp_path) as server:
        guardian, executor = await server.connect("guardian"), await server.connect("executor")
        for number in (0, 7, 19):
            await append(guardian, "cloche.log.sb.guardian.finding", b"{}", f"e.{number}")
        for _ in range(2):
            async with OutStream(executor) as out:
                for number in range(20):
                    await out.send(subject, b"%d" % number, f"e.{number}")
        assert sorted(map(int, await _told(executor, subject))) == list(range(20))


async def test_a_guarded_append_conflicts_when_somebody_else_moved(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        first = await append(bus, "cloche.log.sb.sandbox.creating", b"", "a", expect=Expect(LIFECYCLE, 0))
        with pytest.raises(Conflict) as refused:
            await append(bus, "cloche.log.sb.sandbox.creating", b"", "b", expect=Expect(LIFECYCLE, 0))
        assert refused.value.details["expected"] == "0"
        moved = await append(bus, "cloche.log.sb.sandbox.created", b"", "c", expect=Expect(LIFECYCLE, first.seq))
        with pytest.raises(Conflict):
            await append(bus, "cloche.log.sb.sandbox.started", b"", "d", expect=Expect(LIFECYCLE, first.seq))
        await append(bus, "cloche.log.sb.sandbox.started", b"", "e", expect=Expect(LIFECYCLE, moved.seq))


async def test_events_outside_the_guard_do_not_conflict(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, executor = await server.connect("spawner"), await server.connect("executor")
        first = await append(bus, "cloche.log.sb.sandbox.creating", b"", "a", expect=Expect(LIFECYCLE, 0))
        await append(executor, "cloche.log.sb.command.started", b"", "b")
        await append(bus, "cloche.log.sb.sandbox.created", b"", "c", expect=Expect(LIFECYCLE, first.seq))


async def test_a_lost_acknowledgement_of_a_guarded_append_is_success_on_retry(tmp_path: Path) -> None:
    """The server checks the guard before the id, so our own success would look like a conflict."""
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        guard = Expect(LIFECYCLE, 0)
        first = await append(bus, "cloche.log.sb.sandbox.creating", b"", "a", expect=guard)
        await append(bus, "cloche.log.sb.sandbox.creating", b"", "later")
        again = await append(bus, "cloche.log.sb.sandbox.creating", b"", "a", expect=guard)
        assert again.duplicate
        assert again.seq == first.seq


async def test_a_denied_append_says_so_at_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("client")
        with pytest.raises(Denied, match=r"cloche\.log\.sb\.agent\.message"):
            await append(bus, "cloche.log.SB.agent.message", b"", "a")
        with pytest.raises(Denied):
            async with OutStream(bus) as out:
                await out.send("cloche.log.sb.agent.message", b"", "b")


async def test_a_message_that_is_too_large_is_invalid(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("executor")
        for size in (1024 * 1024 + 1, 3 * 1024 * 1024):
            with pytest.raises(Invalid):
                await append(bus, "cloche.log.sb.command.output", bytes(size), f"a{size}")
            with pytest.raises(Invalid):
                async with OutStream(bus) as out:
                    await out.send("cloche.log.sb.command.output", bytes(size), f"b{size}")
        assert (await append(bus, "cloche.log.sb.command.output", bytes(1000 * 1024), "fits")).seq == 1


async def test_an_append_with_a_deadline_gives_up_without_a_server(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        watching = server.embedded._watching
        assert watching
        watching.cancel()
        await server.kill()
        with pytest.raises(Unavailable, match=r"not stored within|not connected"):
            await append(bus, "cloche.log.sb.sandbox.created", b"1", "x", timeout_s=0.3)


async def test_an_append_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        await append(bus, "cloche.log.sb.sandbox.created", b"1", "before")
        await server.kill()
        acks = await asyncio.gather(
            *(append(bus, "cloche.log.sb.sandbox.started", b"%d" % n, f"during{n}") for n in range(20))
        )
        assert len({ack.seq for ack in acks}) == 20
        assert (await append(bus, "cloche.log.sb.sandbox.created", b"1", "before")).seq == 1


async def test_find_knows_what_is_stored_by_its_id(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        for number in range(5):
            await append(bus, "cloche.log.sb.sandbox.started", b"", f"id{number}")
        assert await find(bus, "cloche.log.sb.sandbox.started", "id3") == 4
        assert await find(bus, "cloche.log.sb.sandbox.started", "id3", after=4) is None
        assert await find(bus, "cloche.log.sb.sandbox.started", "other") is None


async def test_a_stream_keeps_its_order_and_tells_each_sequence(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("executor")
        async with OutStream(bus, window=8) as out:
            acks = [await out.send("cloche.log.sb.command.output", b"%d" % n, f"o{n}") for n in range(300)]
            assert await out.flush() == 300
            assert [ack.result().seq for ack in acks] == list(range(1, 301))
        entries = [entry async for entry in reader.read(bus, ["cloche.log.>"], follow=False)]
        assert [int(entry.data) for entry in entries] == list(range(300))


async def test_a_full_window_holds_the_writer_back(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("executor")
        out = OutStream(bus, window=4)
        watching = server.embedded._watching
        assert watching
        watching.cancel()
        await server.kill()
        await until(lambda: not bus.is_connected)
        for number in range(4):
            await out.send("cloche.log.sb.command.output", b"", f"o{number}")
        fifth = asyncio.create_task(out.send("cloche.log.sb.command.output", b"", "o4"))
        done, _ = await asyncio.wait([fifth], timeout=0.3)
        assert not done
        await server.embedded.start()
        await fifth
        assert await out.flush() == 5
        await out.aclose()


@pytest.mark.parametrize("durability", ["process", "disk"])
async def test_streams_through_random_kills_store_everything_once_and_in_order(tmp_path: Path, durability: str) -> None:
    async with nats_in(tmp_path, durability=durability) as server:
        bus, admin = await server.connect("executor"), await server.connect("admin")
        writing = [asyncio.create_task(_write(bus, f"sb{number}", 400)) for number in range(3)]
        chance = random.Random(7)
        for _ in range(6):
            goal = await stored(admin) + chance.randrange(20, 120)
            await until(lambda goal=goal: _has(admin, goal, writing))  # type: ignore[misc]
            await server.kill_and_wait()
            await admin.wait_connected()
        await asyncio.gather(*writing)
        for number in range(3):
            entries = [e async for e in reader.read(bus, [f"cloche.log.sb{number}.>"], follow=False)]
            assert [int(entry.data[:8]) for entry in entries] == list(range(400))


async def _has(admin: Bus, goal: int, writing: list[asyncio.Task[None]]) -> bool:
    return all(task.done() for task in writing) or await stored(admin) >= goal


async def _write(bus: Bus, sandbox: str, count: int) -> None:
    async with OutStream(bus, window=16) as out:
        for number in range(count):
            payload = b"%08d" % number + bytes(random.Random(number).randrange(0, 4096))
            await out.send(f"cloche.log.{sandbox}.command.output.x", payload, f"{sandbox}.{number}")
