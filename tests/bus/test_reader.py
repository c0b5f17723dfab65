"""From a cursor to live: each entry once, in order, no gap at the seam."""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from contracts import subjects
from infra.bus import live, pages, reader
from infra.bus.connection import Bus
from infra.bus.errors import LogGap
from infra.bus.publisher import append
from infra.bus.reader import Entry, Gap
from tests.bus.filling import fill
from tests.bus.servers import nats_in, stored, until


async def take(bus: Bus, filters: list[str], count: int, start: int = 1) -> list[Entry]:
    entries: list[Entry] = []
    async with contextlib.aclosing(reader.read(bus, filters, start, follow=True)) as reading:  # type: ignore[type-var]
        async for entry in reading:
            entries.append(entry)
            if len(entries) == count:
                break
    return entries


async def test_reading_ends_at_the_head_and_keeps_every_field(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 2500)
        entries = [entry async for entry in reader.read(client, [subjects.LOG], follow=False)]
        assert [entry.seq for entry in entries] == list(range(1, 2501))
        assert entries[7].subject == "cloche.log.sb1.command.output.e1"
        assert entries[7].msg_id == "m7"
        assert int(entries[7].data) == 7
        assert entries[0].time <= entries[-1].time


async def test_an_empty_log_reads_as_nothing(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        client = await server.connect("client")
        assert [entry async for entry in reader.read(client, [subjects.LOG], follow=False)] == []
        assert await reader.last(client, "cloche.log.sb.>") is None
        assert await reader.first(client, "cloche.log.sb.>") is None
        assert await reader.fetch(client, ["cloche.log.sb.>"], 1) == ([], 0)


async def test_filters_start_and_end_are_kept(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 60)
        one = [e.seq async for e in reader.read(client, ["cloche.log.sb1.>"], 10, follow=False, end=30)]
        assert one == [seq for seq in range(10, 31) if (seq - 1) % 3 == 1]
        two = [e.seq async for e in reader.read(client, ["cloche.log.sb0.>", "cloche.log.sb1.>"], follow=False)]
        assert two == [seq for seq in range(1, 61) if (seq - 1) % 3 in (0, 1)]
        overlapping = ["cloche.log.sb0.>", "cloche.log.*.command.output.*"]
        assert len([e async for e in reader.read(client, overlapping, follow=False)]) == 60
        assert (await reader.first(client, "cloche.log.sb2.>")) == (
            await reader.fetch(client, ["cloche.log.sb2.>"], 1)
        ).entries[0]
        last = await reader.last(client, "cloche.log.sb2.>")
        assert last is not None
        assert last.seq == 60


async def test_a_page_tells_that_there_is_more(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 50)
        for filters in (["cloche.log.>"], ["cloche.log.sb0.>", "cloche.log.sb1.>", "cloche.log.sb2.>"]):
            page = await reader.fetch(client, filters, 1, limit=20)
            assert [entry.seq for entry in page.entries] == list(range(1, 21))
            assert page.pending
            page = await reader.fetch(client, filters, 31, limit=20)
            assert [entry.seq for entry in page.entries] == list(range(31, 51))
            assert not page.pending


async def test_following_crosses_from_stored_to_live_without_gap_or_duplicate(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 1500)
        whole = asyncio.create_task(take(client, [subjects.LOG], 4000))
        part = asyncio.create_task(take(client, ["cloche.log.sb0.>", "cloche.log.sb1.>"], 2667))
        await fill(bus, 2500, start=1500)
        assert [entry.seq for entry in await whole] == list(range(1, 4001))
        assert [entry.seq for entry in await part] == [s for s in range(1, 4001) if (s - 1) % 3 != 2]


async def test_following_ends_at_the_asked_sequence(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 10)

        async def read() -> list[int]:
            return [entry.seq async for entry in reader.read(client, [subjects.LOG], 5, follow=True, end=15)]

        reading = asyncio.create_task(read())
        await fill(bus, 10, start=10)
        assert await reading == list(range(5, 16))


async def test_a_writer_that_follows_itself_sees_each_entry_once(tmp_path: Path) -> None:
    """In its own account its messages also arrive before they are stored."""
    async with nats_in(tmp_path) as server:
        bus = await server.connect("executor")
        following = asyncio.create_task(take(bus, [subjects.LOG], 200))
        await fill(bus, 200)
        assert [entry.seq for entry in await following] == list(range(1, 201))


@pytest.mark.parametrize("filter_", [subjects.LOG, "cloche.log.*.command.>"])
async def test_a_reader_that_is_too_slow_loses_nothing(tmp_path: Path, filter_: str) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        admin = await server.connect("admin")
        size = 60_000
        count = 2 * live.MAX_BYTES // size
        await fill(bus, 1)
        entries: list[int] = []
        async for entry in reader.read(client, [filter_], follow=True):
            entries.append(entry.seq)
            if len(entries) == 1:
                await fill(bus, count, start=1, size=size)
                await until(lambda: _reached(admin, count + 1))
            if len(entries) == count + 1:
                break
        assert entries == list(range(1, count + 2))


async def _reached(admin: Bus, count: int) -> bool:
    return await stored(admin) == count


async def test_followers_survive_random_kills_of_the_server(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        total = 1500
        following = [
            asyncio.create_task(take(client, [subjects.LOG], total)),
            asyncio.create_task(take(client, ["cloche.log.sb1.>"], total // 3)),
            asyncio.create_task(take(client, ["cloche.log.sb0.>", "cloche.log.sb2.>"], total * 2 // 3)),
        ]
        writing = asyncio.create_task(fill(bus, total))
        chance = random.Random(3)
        for _ in range(5):
            await client.wait_connected()
            head = (await reader.last(client, subjects.LOG)) if client.is_connected else None
            goal = (head.seq if head else 0) + chance.randrange(20, 200)
            await until(lambda goal=goal: _written(client, goal, writing))  # type: ignore[misc]
            await server.kill_and_wait()
        await writing
        whole, one, two = await asyncio.gather(*following)
        assert [entry.seq for entry in whole] == list(range(1, total + 1))
        assert [int(entry.data) for entry in whole] == list(range(total))
        assert [int(entry.data) for entry in one] == [n for n in range(total) if n % 3 == 1]
        assert [int(entry.data) for entry in two] == [n for n in range(total) if n % 3 != 1]


async def test_a_follower_is_live_again_after_a_restart(tmp_path: Path) -> None:
    """Live, it asks the server for nothing; a follower that had to ask for each entry would show here."""
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        seen: asyncio.Queue[int] = asyncio.Queue()

        async def follow() -> None:
            async for entry in reader.read(client, ["cloche.log.sb0.>"], follow=True):
                seen.put_nowait(entry.seq)

        following = asyncio.create_task(follow())
        await fill(bus, 1, sandboxes=1)
        assert await seen.get() == 1
        await server.kill_and_wait()
        await client.wait_connected()
        await fill(bus, 1, sandboxes=1, start=1)
        assert await seen.get() == 2
        before = client.client.stats["out_msgs"]
        for number in range(2, 102):
            await fill(bus, 1, sandboxes=1, start=number)
            assert await seen.get() == number + 1
        assert client.client.stats["out_msgs"] - before < 10
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _written(client: Bus, goal: int, writing: asyncio.Task[None]) -> bool:
    return writing.done() or (await reader.bounds(client)).last >= goal


async def test_a_hole_in_the_log_is_an_error_and_not_a_silence(tmp_path: Path) -> None:
    """A stream without `deny_delete` stands in for a store that has lost a message."""
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        config = {"name": "CLOCHE_LOG", "subjects": ["cloche.log.>"], "storage": "file", "allow_direct": True}
        await admin.api("STREAM.CREATE.CLOCHE_LOG", config)
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 20)
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 1})
        assert len([entry async for entry in reader.read(client, [subjects.LOG], follow=False)]) == 19
        await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": 11})
        with pytest.raises(LogGap, match="11 to 11"):
            _ = [entry async for entry in reader.read(client, [subjects.LOG], follow=False)]
        for filter_ in (subjects.LOG, "cloche.log.*.command.>"):
            told: list[int | Gap] = []
            async for entry in reader.read(client, [filter_], follow=False, on_gap=told.append):
                told.append(entry.seq)
            assert told == [*range(2, 11), Gap(11, 11), *range(12, 21)]
        silent = [entry async for entry in reader.read(client, ["cloche.log.*.command.>"], follow=False)]
        assert len(silent) == 18


@pytest.mark.parametrize("filters", [[subjects.LOG], ["cloche.log.sb1.>"], ["cloche.log.sb1.>", "cloche.log.sb2.>"]])
async def test_a_long_read_goes_over_many_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: list[str]
) -> None:
    for name, size in {"PAGE_ENTRIES": 14, "BULK_ENTRIES": 50, "LEAST_ENTRIES": 5}.items():
        monkeypatch.setattr(pages, name, size)
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 600)
        wanted = [
            seq for seq in range(1, 601) if filters == [subjects.LOG] or f"cloche.log.sb{(seq - 1) % 3}.>" in filters
        ]
        assert [entry.seq async for entry in reader.read(client, filters, follow=False)] == wanted
        part = [entry.seq async for entry in reader.read(client, filters, 100, follow=False, end=401)]
        assert part == [seq for seq in wanted if 100 <= seq <= 401]


async def test_a_read_that_is_given_up_leaves_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_ENTRIES", 10)
    monkeypatch.setattr(pages, "LEAST_ENTRIES", 10)
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 100)
        reading = reader.read(client, [subjects.LOG], follow=False)
        async with contextlib.aclosing(reading):  # type: ignore[type-var]
            assert (await anext(reading)).seq == 1
            assert client.replies._waiting, "the next page is not asked for while this one is read"
        assert not client.replies._waiting


async def test_a_publisher_cannot_lie_about_sequence_and_subject(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        following = asyncio.create_task(take(client, [subjects.LOG], 2))
        lies = {"Nats-Sequence": "77", "Nats-Subject": "cloche.log.sb.agent.message", "Nats-Msg-Id": "m"}
        await bus.request("cloche.log.sb.command.output", b"", headers=lies)
        await append(bus, "cloche.log.sb.command.output", b"", "n")
        for entry, seq in zip(await following, (1, 2), strict=True):
            assert (entry.seq, entry.subject) == (seq, "cloche.log.sb.command.output")
        page = await reader.fetch(client, [subjects.LOG], 1)
        assert [(entry.seq, entry.subject) for entry in page.entries] == [
            (1, "cloche.log.sb.command.output"),
            (2, "cloche.log.sb.command.output"),
        ]


BEYOND = b'{"data":{"first_sequence":1,"last_sequence":%d,"fault":"truncated"}}' % 2**70


@pytest.mark.parametrize(
    "told", [b"", b"\xff", b'{"x":' + b"[" * 100_000, b'{"data":{"first_sequence":1e9}}', BEYOND], ids=len
)
async def test_a_damage_that_cannot_be_read_is_no_gap_and_stops_no_reader(tmp_path: Path, told: bytes) -> None:
    async with nats_in(tmp_path) as server:
        bus, client = await server.connect("executor"), await server.connect("client")
        await fill(bus, 6)
        await append(await server.connect("replay"), subjects.event(subjects.NO_SANDBOX, "audit.damaged"), told, "told")
        gaps: list[Gap] = []
        found = reader.read(client, subjects.events_of("sb0"), follow=False, on_gap=gaps.append)
        assert [entry.seq async for entry in found] == [1, 4]
        assert gaps == []
