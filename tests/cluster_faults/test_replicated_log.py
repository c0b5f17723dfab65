"""What differs where three servers keep the log: its leader changes, and whoever answers may lag behind."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from contracts.errors import ClocheError, Conflict
from contracts.streams import COMMANDS_STREAM, executor_consumer
from infra.bus import headers, page, reader
from infra.bus.connection import Bus
from infra.bus.consumer import run
from infra.bus.gaps import Gap
from infra.bus.out_stream import OutStream, Right
from infra.bus.publisher import EXPECTED_SEQUENCE, EXPECTED_SUBJECT, Expect, append
from tests.bus.servers import dead_letter, until
from tests.cluster_faults.lab import Lab, lab_in

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

CHANGES = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with lab_in(tmp_path_factory.mktemp("lab")) as found:
        yield found


async def numbers(bus: Bus, subject: str) -> list[int]:
    return [json.loads(entry.data)["n"] async for entry in reader.read(bus, [subject], 1, follow=False)]


async def test_one_writers_messages_stay_in_order_while_the_leader_changes(lab: Lab) -> None:
    executor = await lab.connect("executor")
    subject = "cloche.log.sb.command.output.ordered"
    sent = 0

    async def write() -> None:
        nonlocal sent
        async with OutStream(executor) as out:
            while True:
                await out.send(subject, b'{"n":%d}' % sent, f"ordered-{sent}")
                sent += 1

    def has_reached(number: int) -> bool:
        return sent >= number

    writing = asyncio.create_task(write())
    for _ in range(CHANGES):
        await lab.cluster.step_down(lab.admin)
        enough = sent + 50
        await until(partial(has_reached, enough))
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    found = await numbers(lab.admin, subject)
    assert found == list(range(len(found)))
    # One may be under way when it is stopped.
    assert len(found) in (sent - 1, sent, sent + 1)


async def test_a_follower_of_a_filter_misses_nothing_while_the_leader_changes(lab: Lab) -> None:
    executor, client = await lab.connect("executor"), await lab.connect("client")
    subject = "cloche.log.sb.command.output.followed"
    seen: list[int] = []
    gaps: list[Gap] = []

    async def follow() -> None:
        filters = ["cloche.log.sb.command.*.followed"]
        async for entry in reader.read(client, filters, 1, follow=True, on_gap=gaps.append):
            seen.append(json.loads(entry.data)["n"])

    following = asyncio.create_task(follow())
    total = 0
    for _ in range(CHANGES):
        stepping = asyncio.create_task(lab.cluster.step_down(lab.admin))
        while not stepping.done():
            await append(executor, subject, b'{"n":%d}' % total, f"followed-{total}")
            total += 1
        await stepping
    await until(lambda: len(seen) >= total)
    following.cancel()
    assert (seen, gaps) == (list(range(total)), [])


async def test_rivals_for_one_guard_have_one_winner_while_the_leader_changes(lab: Lab) -> None:
    rivals = [await lab.connect("spawner", servers=(name,)) for name in ("s1", "s2", "s3")]
    stop = False

    async def change() -> None:
        while not stop:
            await lab.cluster.step_down(lab.admin)

    changing = asyncio.create_task(change())
    last, winners = 0, []
    for moment in range(15):

        async def move(number: int, moment: int = moment, last: int = last) -> int | None:
            guard = Expect("cloche.log.sb.sandbox.>", last)
            with contextlib.suppress(Conflict):
                where = f"cloche.log.sb.sandbox.moved{number}"
                return (await append(rivals[number], where, b"{}", f"move-{moment}-{number}", expect=guard)).seq
            return None

        won = [seq for seq in await asyncio.gather(*map(move, range(3))) if seq is not None]
        assert len(won) == 1
        newest = await reader.patiently(rivals[moment % 3], lambda bus: reader.last(bus, "cloche.log.sb.sandbox.>"))
        assert newest is not None
        assert newest.seq == won[0]
        last = won[0]
        winners.append(last)
    stop = True
    await changing
    stored = [entry.seq async for entry in reader.read(lab.admin, ["cloche.log.sb.sandbox.>"], 1, follow=False)]
    assert stored == winners


async def test_who_reads_from_a_server_that_lags_behind_waits_and_is_told_no_old_end(lab: Lab) -> None:
    executor = await lab.connect("executor", servers=("s1", "s2"))
    await lab.cluster.whole(lab.admin)
    if await lab.cluster.leader(lab.admin) == "s3":
        await lab.cluster.step_down(lab.admin)
    beside = await lab.connect("client", servers=("s3",), host="s3")
    subject = "cloche.log.sb.command.output.lag"
    first = await append(executor, subject, b'{"n":0}', "lag-0")
    seen: list[int] = []
    gaps: list[Gap] = []

    async def follow() -> None:
        async for entry in reader.read(beside, [subject], 1, follow=True, on_gap=gaps.append):
            seen.append(entry.seq)

    following = asyncio.create_task(follow())
    await until(lambda: seen == [first.seq])
    lab.network.cut("s3")
    try:
        second = await append(executor, subject, b'{"n":1}', "lag-1")
        await append(executor, f"{subject}-new", b"{}", "lag-new")
        for ask in (reader.last(beside, subject), page.fetch_lasts(beside, [f"{subject}-new"])):
            with pytest.raises(ClocheError):
                await ask
    finally:
        lab.network.heal("s3")
    newest = await reader.patiently(beside, lambda bus: reader.last(bus, subject))
    assert newest is not None
    assert newest.seq == second.seq
    found = await reader.patiently(beside, lambda bus: page.fetch_lasts(bus, [f"{subject}-new"]))
    assert len(found) == 1
    await until(lambda: seen == [first.seq, second.seq])
    following.cancel()
    assert gaps == []


async def test_orders_are_taken_on_at_once_when_the_leader_of_their_consumer_dies(lab: Lab) -> None:
    """The connection is to another server, and stays: only the silence tells."""
    spec = executor_consumer("n1")
    await lab.cluster.whole(lab.admin, COMMANDS_STREAM)
    leader = await lab.cluster.leader(lab.admin, spec.stream, consumer=spec.durable)
    others = tuple(name for name in lab.cluster.servers if name != leader)
    executor = await lab.connect("executor", servers=others)
    client = await lab.connect("client", servers=others)
    taken: list[str] = []

    async def take(subject: str, _: bytes) -> None:
        taken.append(subject)

    taking = asyncio.create_task(run(executor, spec, take, dead_letter=dead_letter))
    order = "cloche.cmd.n1.sb.command.run"
    await append(client, order, b"{}", "order-1", stream=COMMANDS_STREAM)
    await until(lambda: len(taken) == 1)
    lab.cluster.servers[leader].kill()
    try:
        await append(client, order, b"{}", "order-2", stream=COMMANDS_STREAM)
        # Without a sign of life from the dead one it would be asked again after 22 s.
        await until(lambda: len(taken) >= 2, seconds=20)
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        lab.cluster.servers[leader].start()
    await lab.cluster.whole(lab.admin)


async def test_commands_of_one_sandbox_go_side_by_side_under_their_guards_while_the_leader_changes(lab: Lab) -> None:
    executor = await lab.connect("executor")
    names = [f"beside{number}" for number in range(8)]

    async def write(name: str) -> None:
        told = f"cloche.log.guarded.command.*.{name}"

        async def right() -> Right:
            newest = await reader.patiently(executor, lambda bus: reader.last(bus, told))
            owner = Expect("cloche.log.guarded.sandbox.recovering", 0)
            return Right(owner, Expect(told, newest.seq if newest else 0))

        async with OutStream(executor, right=await right(), renew=right) as out:
            for number in range(40):
                subject = f"cloche.log.guarded.command.{'output' if number else 'started'}.{name}"
                await out.send(subject, b'{"n":%d}' % number, f"{name}-{number}")

    writing = asyncio.gather(*map(write, names))
    await lab.cluster.step_down(lab.admin)
    await writing
    for name in names:
        assert await numbers(lab.admin, f"cloche.log.guarded.command.*.{name}") == list(range(40))


async def test_a_copy_that_arrives_when_its_id_is_forgotten_is_refused(lab: Lab) -> None:
    executor = await lab.connect("executor")
    subject, told = "cloche.log.sb.command.output.copied", "cloche.log.sb.command.*.copied"
    right = Right(Expect("cloche.log.sb.sandbox.recovering", 0), Expect(told, 0))
    async with OutStream(executor, right=right) as out:
        acks = [await out.send(subject, b'{"n":%d}' % number, f"copied-{number}") for number in range(3)]
    second = (await page.fetch(executor, subject, acks[1].result().seq, limit=1)).entries[0]
    assert headers.get(second.headers, EXPECTED_SUBJECT.encode()) == told
    expected = headers.get(second.headers, EXPECTED_SEQUENCE.encode())
    assert expected == str(acks[0].result().seq)
    with pytest.raises(Conflict):
        await append(executor, subject, second.data, "forgotten", expect=Expect(told, int(expected)))
    assert await numbers(lab.admin, subject) == [0, 1, 2]
