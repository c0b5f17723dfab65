"""What orders make of a replay, and how it is kept."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts import codec, streams
from contracts.errors import Conflict
from contracts.replays import Playing
from infra.bus.kv import Bucket
from services.replay.playing.record import REMEMBERED_ORDERS, Directive, Record, Verb, begun_again, merged, obey
from services.replay.playing.shelf import Shelf
from tests.bus.servers import nats_in, until

RECORD = Record(
    replay="r", sandbox="sb", owner="one", first_sequence=10, last_sequence=20, max_idle_ms=0, speed=1.0, position=9
)
directives = st.builds(
    Directive,
    order=st.text(min_size=1, max_size=2),
    verb=st.sampled_from(Verb),
    speed=st.one_of(st.none(), st.floats(0.01, 100)),
    sequence=st.integers(0, 100),
    events=st.integers(1, 5),
)


@given(st.lists(directives, max_size=20))
def test_orders_keep_it_within_its_range_and_count_once(orders: list[Directive]) -> None:
    record = RECORD
    for each in orders:
        after = obey(record, each)
        assert obey(after, each) == after
        assert after.first_sequence - 1 <= after.position <= after.last_sequence
        assert after.passes >= record.passes
        assert after.position == record.position or after.passes > record.passes
        assert not record.stopped or after == record
        record = after
    assert codec.decode(codec.encode(record), Record) == record


def test_it_is_what_its_orders_say() -> None:
    assert RECORD.playing == Playing.PLAYING
    paused = obey(RECORD, Directive(order="a", verb=Verb.PAUSE))
    assert paused.playing == Playing.PAUSED
    sought = obey(paused, Directive(order="b", verb=Verb.SEEK, sequence=99))
    assert (sought.playing, sought.position, sought.passes) == (Playing.ENDED, 20, 2)
    back = obey(sought, Directive(order="c", verb=Verb.SEEK, sequence=1))
    assert (back.playing, back.position, back.passes) == (Playing.PAUSED, 9, 3)
    faster = obey(back, Directive(order="d", verb=Verb.RESUME, speed=4.0))
    assert (faster.playing, faster.speed, faster.status.orders) == (Playing.PLAYING, 4.0, ("a", "b", "c", "d"))
    assert obey(faster, Directive(order="e", verb=Verb.STOP)).playing == Playing.STOPPED
    again = begun_again(faster)
    assert (again.position, again.passes) == (9, 4)


def test_only_the_last_orders_are_remembered() -> None:
    record = RECORD
    for number in range(REMEMBERED_ORDERS + 5):
        record = obey(record, Directive(order=f"o{number}", verb=Verb.PAUSE))
    assert len(record.obeyed) == REMEMBERED_ORDERS


def test_orders_that_came_meanwhile_are_taken_in_and_progress_is_kept() -> None:
    done, waiting = Directive(order="a", verb=Verb.PAUSE), Directive(order="b", verb=Verb.STEP, events=1)
    mine = replace(obey(RECORD, done), position=15)
    together = merged(mine, replace(RECORD, inbox=(done, waiting), asked="somebody"))
    assert (together.position, together.inbox, together.asked) == (15, (waiting,), "somebody")


async def test_nobody_writes_over_another(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("replay")
        one, two = (Shelf(bus, Bucket(bus, streams.REPLAYS_BUCKET)) for _ in range(2))
        held = await one.create(RECORD)
        assert held is not None
        assert await two.create(RECORD) is None
        taken = await two.save(replace(RECORD, owner="two"), held.revision)
        with pytest.raises(Conflict):
            await one.save(replace(RECORD, position=12), held.revision)
        with pytest.raises(Conflict):
            await one.forget(held)
        changed = await one.change("r", lambda record: replace(record, position=13))
        assert changed is not None
        assert (changed.record.owner, changed.record.position) == ("two", 13)
        assert changed.revision > taken.revision
        watching = asyncio.create_task(two.watch(lambda _replay, _held: None))
        await until(lambda: two.held["r"].record.position == 13)
        await one.forget(changed)
        await until(lambda: "r" not in two.held)
        assert await one.find("r") is None
        assert await one.change("r", lambda record: record) is None
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_record_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("replay")
        bucket = Bucket(bus, streams.REPLAYS_BUCKET)
        await bucket.put("broken", b'{"replay": 1}')
        shelf = Shelf(bus, bucket)
        await shelf.create(RECORD)
        seen: list[str] = []
        watching = asyncio.create_task(
            Shelf(bus, bucket).watch(lambda replay, held: seen.append(replay) if held else None)
        )
        await until(lambda: "r" in seen)
        assert await shelf.find("broken") is None
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
