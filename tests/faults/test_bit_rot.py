"""What a disk has spoiled is told by whoever reads it: see docs/adr/0019-what-rot-does-and-how-it-shows.md."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from contracts import subjects
from contracts.audits import Audit
from contracts.errors import Conflict
from contracts.verifying import Trust
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.errors import LogGap
from infra.bus.out_stream import OutStream, Right
from infra.bus.publisher import Expect, append
from infra.bus.reader import Gap
from infra.embedded.server import EmbeddedServer
from infra.log.live import LiveView
from infra.settings import Durability
from infra.verify import keeping
from infra.verify.log import verify_log
from tests.audit.rig import auditing
from tests.bus.servers import Server, until
from tests.faults import rotting
from tests.faults.rotting import COUNT, Blocks, Damage, content, copied, written

OLD, MIDDLE, LATE = 300, 1300, 2400
CLEAN, KILLED = "clean", "killed"
PROVING = Audit(checkpoint_events=1000, checkpoint_s=0.05)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("logs")

    async def both() -> dict[str, Path]:
        return {how: await written(place / how, killed=how == KILLED) for how in (CLEAN, KILLED)}

    return asyncio.run(both())


@pytest.fixture(scope="module")
def proven(logs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with its chain, whose server ended in order. What is known of it outside is in the same directory."""
    data = tmp_path_factory.mktemp("proven") / "data"
    shutil.copytree(logs[CLEAN], data)

    async def prove() -> None:
        async with serving(data) as server, auditing(server, data, PROVING) as audit:
            await audit.has_proven(COUNT)

    asyncio.run(prove())
    return data


@contextlib.asynccontextmanager
async def serving(data: Path) -> AsyncIterator[Server]:
    embedded = EmbeddedServer(data, durability=Durability.PROCESS)
    async with embedded, contextlib.AsyncExitStack() as stack:
        yield Server(embedded, stack)


@contextlib.asynccontextmanager
async def reading(data: Path) -> AsyncIterator[Bus]:
    async with (
        EmbeddedServer(data, durability=Durability.PROCESS) as server,
        await server.connect("client") as bus,
    ):
        yield bus


async def read(bus: Bus, filters: list[str], start: int = 1) -> list[int | Gap]:
    """Sequences, and gaps where they were told."""
    told: list[int | Gap] = []
    async for entry in reader.read(bus, filters, start, follow=False, on_gap=told.append):
        assert entry.data == content(entry.seq)
        told.append(entry.seq)
    return told


def expected(gap: Gap, wanted: range) -> list[int | Gap]:
    there: list[int | Gap] = [seq for seq in wanted if not gap.first <= seq <= gap.last]
    place = sum(seq < gap.first for seq in wanted)
    return [*there[:place], gap, *there[place:]]


def one(sequence: int) -> Gap:
    return Gap(sequence, sequence)


def test_the_log_has_several_blocks_of_many_messages(logs: dict[str, Path]) -> None:
    for data in logs.values():
        blocks = Blocks(data)
        assert len(blocks.files) >= 3
        assert [len(blocks.of(file)) > 500 for file in blocks.files[:3]] == [True] * 3
        assert list(blocks.records) == list(range(1, COUNT + 1))
        assert [blocks.records[seq].file.stem for seq in (OLD, MIDDLE, LATE)] == ["1", "2", blocks.files[-1].stem]


@pytest.mark.parametrize(
    ("how", "damage", "at", "rest"),
    [
        (CLEAN, rotting.payload(OLD), OLD, False),
        (CLEAN, rotting.payload(LATE), LATE, False),
        (CLEAN, rotting.moment(MIDDLE), MIDDLE, False),
        (CLEAN, rotting.length(OLD), OLD, True),
        (CLEAN, rotting.cut(LATE, 400), LATE, True),
        (CLEAN, rotting.cut(COUNT, 400), COUNT, True),
        (CLEAN, rotting.cut(MIDDLE, 400), MIDDLE, True),
        (KILLED, rotting.payload(OLD), OLD, True),
        (KILLED, rotting.length(MIDDLE), MIDDLE, True),
    ],
)
async def test_what_the_store_cannot_read_is_told_in_its_place(
    tmp_path: Path, logs: dict[str, Path], how: str, damage: Damage, at: int, rest: bool
) -> None:
    gap = Gap(*Blocks(logs[how]).rest_of_block(at)) if rest else one(at)
    async with reading(copied(logs[how], tmp_path / "data", damage)) as bus:
        assert await read(bus, [subjects.LOG]) == expected(gap, range(1, COUNT + 1))
        with pytest.raises(LogGap, match=f"{gap.first} to {gap.last}"):
            _ = [entry async for entry in reader.read(bus, [subjects.LOG], follow=False)]


@pytest.mark.parametrize("how", [CLEAN, KILLED])
async def test_a_lost_block_is_told(tmp_path: Path, logs: dict[str, Path], how: str) -> None:
    blocks = Blocks(logs[how])
    lost = blocks.of(blocks.files[1])
    gap = Gap(lost[0], lost[-1])
    async with reading(copied(logs[how], tmp_path / "data", rotting.lost_block(1))) as bus:
        assert await read(bus, [subjects.LOG]) == expected(gap, range(1, COUNT + 1))
        assert await read(bus, ["cloche.log.sb1.>"]) == expected(gap, range(1, COUNT + 1, 3))
        assert await read(bus, ["cloche.log.sb1.>"], lost[10]) == expected(
            Gap(lost[10], lost[-1]), range(1, COUNT + 1, 3)[len(range(1, lost[10], 3)) :]
        )
        assert gap not in await read(bus, ["cloche.log.sb1.>"], lost[-1] + 1)


@pytest.mark.parametrize(
    ("damage", "rest"), [(rotting.payload(OLD), False), (rotting.length(OLD), True), (rotting.cut(OLD, 9), True)]
)
async def test_a_sandbox_that_lost_an_event_is_told_even_where_the_server_says_that_all_is_well(
    tmp_path: Path, logs: dict[str, Path], damage: Damage, rest: bool
) -> None:
    gap = Gap(*Blocks(logs[CLEAN]).rest_of_block(OLD)) if rest else one(OLD)
    mine = [seq for seq in range(1, COUNT + 1) if seq % 3 == OLD % 3]
    assert mine[-1] == COUNT, "the last event of the log is one of them: it must not pass for the one that is missing"
    async with reading(copied(logs[CLEAN], tmp_path / "data", damage)) as bus:
        for _ in range(2):
            told = await read(bus, [f"cloche.log.sb{OLD % 3}.>"])
            assert [each for each in told if isinstance(each, Gap)] == [gap]
            assert [each for each in told if not isinstance(each, Gap)] == [
                seq for seq in mine if not gap.first <= seq <= gap.last
            ]
        several = [f"cloche.log.sb{OLD % 3}.tool.>", f"cloche.log.sb{OLD % 3}.sandbox.>"]
        assert gap in await read(bus, several)
        assert gap in await read(bus, several, mine[0])


async def test_a_reader_that_tells_nobody_is_warned_once(
    tmp_path: Path, logs: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    blocks = Blocks(logs[KILLED])
    async with reading(copied(logs[KILLED], tmp_path / "data", rotting.cut(MIDDLE + 7, 9))) as bus:
        for _ in range(2):
            entries = [entry.seq async for entry in reader.read(bus, ["cloche.log.sb2.>"], follow=False)]
            assert entries[-1] == COUNT // 3 * 3 - 1
        assert [record.getMessage() for record in caplog.records if "lacks" in record.message] == [
            "the log lacks sequence {} to {}: see `cloche audit`".format(*blocks.rest_of_block(MIDDLE + 7))
        ]


@pytest.mark.parametrize("filter_", [subjects.LOG, "cloche.log.*.tool.>"])
async def test_a_follower_goes_on_when_the_log_has_lost_its_end(
    tmp_path: Path, logs: dict[str, Path], filter_: str
) -> None:
    """The server gives the lost sequences again: a follower that waited for what comes after them would miss it all."""
    data = copied(logs[KILLED], tmp_path / "data", lambda _: None)
    server = EmbeddedServer(data, durability=Durability.PROCESS)
    await server.start()
    told: list[int | Gap] = []

    async def follow(bus: Bus) -> None:
        async for entry in reader.read(bus, [filter_], COUNT - 5, follow=True, on_gap=told.append):
            told.append(entry.seq)
            if entry.data == b"new":
                return

    try:
        async with await server.connect("client") as bus:
            following = asyncio.create_task(follow(bus))
            await until(lambda: COUNT in told)
            await rotting.kill(server)
            Blocks(data).truncate(LATE, 9)
            await server.start()
            async with await server.connect("executor") as executor:
                assert (await append(executor, rotting.subject(0), b"new", "new")).seq == LATE
            await following
    finally:
        await server.stop()
    assert told == [*range(COUNT - 5, COUNT + 1), Gap(LATE, COUNT), LATE]


NEWEST = COUNT - 6
MINE = f"cloche.log.sb{COUNT % 3}.>"


def without_the_newest(blocks: Blocks) -> None:
    """The last two of one sandbox, and one in the middle."""
    for sequence in (COUNT, NEWEST + 3, COUNT // 6 * 3):
        rotting.payload(sequence)(blocks)


async def test_the_newest_that_is_left_is_found_where_the_server_says_that_there_is_nothing(
    tmp_path: Path, logs: dict[str, Path]
) -> None:
    async with reading(copied(logs[CLEAN], tmp_path / "data", without_the_newest)) as bus:
        assert await page.fetch_last(bus, MINE) is None
        found = await reader.last(bus, MINE)
        assert found is not None
        assert found.seq == NEWEST
        assert await reader.last(bus, "cloche.log.nobody.>") is None


async def test_what_has_lost_its_newest_event_goes_on_from_the_one_before_it(
    tmp_path: Path, logs: dict[str, Path]
) -> None:
    """The server takes it for empty then: whoever knows better could never write there again."""
    async with serving(copied(logs[CLEAN], tmp_path / "data", without_the_newest)) as server:
        executor = await server.connect("executor")
        for wrong in (COUNT, NEWEST - 3):
            with pytest.raises(Conflict):
                await append(executor, rotting.subject(COUNT), b"{}", "wrong", expect=Expect(MINE, wrong))
        newest = Expect(MINE, NEWEST)
        assert (await append(executor, rotting.subject(COUNT), b"{}", "first", expect=newest)).seq == COUNT + 1
        with pytest.raises(Conflict):
            await append(executor, rotting.subject(COUNT), b"{}", "second", expect=newest)


async def test_a_writer_whose_right_has_rotted_keeps_it_until_somebody_else_has_one(
    tmp_path: Path, logs: dict[str, Path]
) -> None:
    async with serving(copied(logs[CLEAN], tmp_path / "data", without_the_newest)) as server:
        executor, other = await server.connect("executor"), await server.connect("executor")
        told = Expect("cloche.log.other.>", 0)

        async def renew() -> Right:
            found = await reader.last(executor, MINE)
            assert found is not None
            if found.seq > COUNT:
                raise Conflict("somebody else has it")
            return Right(Expect(MINE, found.seq), told)

        with pytest.raises(Conflict, match="somebody else has it"):
            async with OutStream(executor, right=await renew(), renew=renew) as out:
                await out.send("cloche.log.other.tool.noted.e1", b"{}", "one")
                assert await out.flush() == COUNT + 1
                await append(other, rotting.subject(COUNT), b"{}", "claim")
                await out.send("cloche.log.other.tool.noted.e1", b"{}", "two")


def crashed(damage: Damage) -> Damage:
    """As after a SIGKILL: the server reads its blocks when it starts, and believes them."""

    def harm(blocks: Blocks) -> None:
        damage(blocks)
        (blocks.directory / "index.db").unlink()

    return harm


@pytest.mark.parametrize(
    ("damage", "at", "last"),
    [
        (rotting.payload(OLD), OLD, OLD),
        (crashed(rotting.payload(OLD)), OLD, None),
        (rotting.length(MIDDLE), MIDDLE, None),
        (crashed(rotting.lost_block(1)), None, None),
        (rotting.payload(LATE), LATE, LATE),
        (rotting.length(LATE), LATE, COUNT),
        (crashed(rotting.length(LATE)), LATE, COUNT),
        (rotting.cut(LATE, 9), LATE, COUNT),
        (crashed(rotting.cut(LATE, 9)), LATE, COUNT),
    ],
)
async def test_verify_and_the_check_at_the_start_name_what_is_gone(
    tmp_path: Path, proven: Path, damage: Damage, at: int | None, last: int | None
) -> None:
    whole = Blocks(proven)
    first = at or whole.of(whole.files[1])[0]
    last = last or whole.rest_of_block(first)[1]
    data = copied(proven, tmp_path / "data", damage)
    async with serving(data) as server:
        bus = await server.connect("client")
        kept = keeping.read(data)
        found = await verify_log(LiveView(bus), Trust((), kept.key, kept.checkpoints), _quiet, log=kept.log)
        assert found.findings[0].sequence == first, found.findings[:3]
        async with auditing(server, data, PROVING, check_after_s=0) as audit:
            await audit.has_checked()
            faults = await audit.damages()
        missing = {seq for _, begin, end in faults for seq in range(begin, end + 1)}
        assert min(missing) == first, faults
        assert set(range(first, last + 1)) <= missing, faults


def _quiet(_what: str, _done: int, _whole: int) -> None:
    pass


async def test_whoever_reads_on_in_the_middle_learns_from_the_audit_what_nothing_else_shows(
    tmp_path: Path, proven: Path
) -> None:
    data = copied(proven, tmp_path / "data", rotting.payload(OLD))
    mine = [f"cloche.log.sb{OLD % 3}.>"]
    async with serving(data) as server:
        first, second = await server.connect("client"), await server.connect("client")
        assert (await read(first, mine, OLD - 3))[:2] == [OLD - 3, OLD + 3]
        async with auditing(server, data, PROVING, check_after_s=0) as audit:
            await audit.has_checked()
        told = await read(second, mine, OLD - 3)
        assert told[:3] == [OLD - 3, one(OLD), OLD + 3]
        assert await read(second, mine, OLD + 1) == told[2:]


async def test_whoever_reads_learns_from_the_audit_of_what_was_cut_off_though_its_sequences_were_given_again(
    tmp_path: Path, proven: Path
) -> None:
    data = copied(proven, tmp_path / "data", crashed(rotting.cut(LATE, 9)))
    mine = [f"cloche.log.sb{LATE % 3}.>"]
    async with serving(data) as server:
        executor = await server.connect("executor")
        async with OutStream(executor) as out:
            for number in range(LATE, LATE + 30):
                await out.send(rotting.subject(number), content(number), f"another{number}")
        async with auditing(server, data, PROVING) as audit:
            await audit.has_damages(1)
            ((fault, first, last),) = await audit.damages()
        assert (fault, first, last >= COUNT) == ("truncated", LATE, True)
        bus = await server.connect("client")
        for _ in range(2):
            told = await read(bus, mine, LATE - 6)
            assert told[:5] == [LATE - 6, LATE - 3, Gap(first, last), LATE, LATE + 3]
            assert [each for each in told if isinstance(each, Gap)] == [Gap(first, last)]
        assert (await read(bus, mine, LATE + 3))[:2] == [Gap(first, last), LATE + 3]


async def test_sequences_that_were_given_again_are_found_by_what_is_kept_outside(tmp_path: Path, proven: Path) -> None:
    data = copied(proven, tmp_path / "data", crashed(rotting.cut(LATE, 9)))
    async with serving(data) as server:
        executor = await server.connect("executor")
        async with OutStream(executor) as out:
            for number in range(300):
                await out.send(rotting.subject(number), b'{"type":"tool.noted"}', f"another{number}")
        bus = await server.connect("client")
        kept = keeping.read(data)
        found = await verify_log(LiveView(bus), Trust((), kept.key, kept.checkpoints), _quiet, log=kept.log)
        assert found.findings[0].sequence == LATE, found.findings[:3]
        async with auditing(server, data, PROVING, check_after_s=0) as audit:
            await audit.has_checked()
            assert min(begin for _, begin, _ in await audit.damages()) == LATE
