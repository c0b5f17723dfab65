"""A way through the log, on a real server and without a gateway around it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from contracts.access import Scope
from infra.bus.connection import Bus
from infra.bus.gaps import Gap
from infra.bus.out_stream import OutStream
from infra.bus.page import Entry
from services.gateway.live import feed
from services.gateway.live.feed import Feeds
from services.gateway.live.following import Following
from services.gateway.live.items import Item, gap_item, item_of
from services.gateway.live.ring import Ring
from services.gateway.live.selection import Selection
from services.gateway.live.sight import Sight
from tests.bus.servers import nats_in

MB = 1 << 20


async def _fill(bus: Bus, count: int, *, start: int = 0, size: int = 10) -> None:
    async with OutStream(bus) as out:
        for number in range(start, start + count):
            text = b'"%b"' % (b"x" * size)
            await out.send(f"cloche.log.sb{number % 2}.command.output.e", text, f"m{number}")


def _following(bus: Bus, feeds: Feeds, cursor: int, selection: Selection | None = None) -> Following:
    return Following(bus, feeds, Sight(bus, Scope()), selection or Selection(), cursor)


async def _take(following: Following, count: int) -> list[Item]:
    taken: list[Item] = []
    async with contextlib.aclosing(following.batches()) as batches:
        async for items in batches:
            taken += items
            if len(taken) >= count:
                break
    return taken


async def test_what_the_log_lacks_is_told_with_its_bounds_and_never_passed_over(tmp_path: Path) -> None:
    """A stream without `deny_delete` stands in for a store that has lost a message."""
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        config = {"name": "CLOCHE_LOG", "subjects": ["cloche.log.>"], "storage": "file", "allow_direct": True}
        await admin.api("STREAM.CREATE.CLOCHE_LOG", config)
        bus = await server.connect("gateway")
        await _fill(await server.connect("executor"), 600)
        for sequence in (300, 301, 590):
            await admin.api("STREAM.MSG.DELETE.CLOCHE_LOG", {"seq": sequence})
        for selection in (Selection(), Selection(("sb0",)), Selection(types=("command.output",))):
            told = await _take(_following(bus, Feeds(bus), 1, selection), 301 if selection.sandboxes else 599)
            gaps = [msgspec.json.decode(item.body) for item in told if not item.sandbox]
            assert [(each["code"], each["first_sequence"], each["last_sequence"]) for each in gaps] == [
                ("LOG_GAP", 300, 301),
                ("LOG_GAP", 590, 590),
            ]
            sequences = [item.sequence for item in told if item.sandbox]
            assert sequences == sorted(set(sequences))


@pytest.fixture
def small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LARGEST_RING", 40_000)
    monkeypatch.setattr(feed, "LEAST_RING", 40_000)
    monkeypatch.setattr(feed, "PATIENCE_S", 0.05)


@pytest.mark.usefixtures("small_rings")
async def test_one_that_falls_out_of_the_ring_reads_the_log_itself_and_comes_back(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus, writer = await server.connect("gateway"), await server.connect("executor")
        feeds = Feeds(bus)
        slow, going_on = _following(bus, feeds, 1), asyncio.Event()

        async def slowly() -> list[int]:
            sequences: list[int] = []
            async with contextlib.aclosing(slow.batches()) as batches:
                async for items in batches:
                    sequences += [item.sequence for item in items]
                    if sequences[-1] >= 1500:
                        return sequences
                    await going_on.wait()
            raise AssertionError

        lagging = asyncio.create_task(slowly())
        quick = [asyncio.create_task(_take(_following(bus, feeds, 1), 1000)) for _ in range(3)]
        await _fill(writer, 1000, size=400)
        for taken in await asyncio.gather(*quick):
            assert [item.sequence for item in taken] == list(range(1, 1001))
        going_on.set()
        await _fill(writer, 500, start=1000)
        assert await lagging == list(range(1, 1501))
        assert not feeds.open


async def test_the_last_who_leaves_ends_the_feed_and_those_with_other_filters_have_another(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("gateway")
        await _fill(await server.connect("executor"), 4)
        feeds = Feeds(bus)
        async with _open(_following(bus, feeds, 1)), _open(_following(bus, feeds, 3)):
            assert feeds.open == 1
            async with _open(_following(bus, feeds, 1, Selection(("sb1",)))):
                assert feeds.open == 2
            assert feeds.open == 1
        assert feeds.open == 0


@contextlib.asynccontextmanager
async def _open(following: Following) -> AsyncIterator[None]:
    async with contextlib.aclosing(following.batches()) as batches:
        await anext(batches)
        yield


def _item(sequence: int) -> Item:
    return item_of(Entry(sequence, "cloche.log.sb.a.b", b"{}", "", ""))


def test_a_ring_that_dropped_something_says_so_and_finds_any_other_sequence() -> None:
    ring = Ring(10)
    for sequence in range(10, 50, 2):
        ring.append(_item(sequence))
    ring.drop(5)
    assert ring.position_of(18) is None
    assert ring.position_of(19) == ring.position_of(20) == 5
    assert ring.position_of(100) == ring.end == 20
    assert [item.sequence for item in ring.take(18)] == [46, 48]


def test_a_log_that_gives_sequences_again_is_followed_from_there() -> None:
    ring = Ring(100)
    for sequence in (100, 101, 102):
        ring.append(_item(sequence))
    ring.append(gap_item(Gap(101, 102), told_after=ring.newest))
    for sequence in (101, 102):
        ring.append(_item(sequence))
    assert ring.position_of(100) is None
    assert ring.position_of(101) == 4
    ring.append(gap_item(Gap(7, 8), told_after=ring.newest))
    assert ring.floor == 101, "a gap that is told late is no new beginning"
