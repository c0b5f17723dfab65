"""What happened to the store while nobody looked is found when the service starts, and named."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from contracts.audits import Audit, Checking
from contracts.streams import Limits
from infra.audit import record, tail
from infra.bus.provision import provision
from infra.watching.threads import in_thread
from services.replay.audit import checking
from services.replay.audit.damages import Damages
from services.replay.audit.pace import Pace
from tests.audit.rig import NEVER_S, SELDOM, auditing, checkpoints, damages, prove, write
from tests.bus.servers import Server, nats_in
from tests.faults.rotting import CHECKSUM_BYTES, Blocks

EACH_TEN = Audit(checkpoint_events=10, checkpoint_s=86_400)
LEAF_LINE = 28
Found = list[tuple[str, int, int]]


class Copy(NamedTuple):
    """Of a log that was proven up to `proven`, and noted outside up to `last`. Its server is stopped."""

    place: Path
    last: int
    proven: int

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def audit(self) -> Path:
        return self.place / "own" / "audit"

    def forget_index(self) -> None:
        """As after a crash: the server reads its blocks, and believes them."""
        (Blocks(self.data).directory / "index.db").unlink()


Harm = Callable[[Copy], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    place = tmp_path_factory.mktemp("log")

    async def make() -> Copy:
        async with nats_in(place) as server:
            writer = await server.connect("executor")
            async with auditing(server, place / "own", EACH_TEN, ends=False) as audit:
                await audit.has_seen(await write(writer, 50))
            proven = (await prove(writer))[-1].last_sequence
            async with auditing(server, place / "own", SELDOM, ends=False) as audit:
                last = await write(writer, 7, name="later")
                await audit.has_seen(last)
            return Copy(place, last, proven)

    return asyncio.run(make())


@pytest.fixture
def copy(original: Copy, tmp_path: Path) -> Copy:
    shutil.copytree(original.place, tmp_path, dirs_exist_ok=True)
    return original._replace(place=tmp_path)


async def found_by(server: Server, copy: Copy, audit: Audit = EACH_TEN, *, check_after_s: float = NEVER_S) -> Found:
    async with auditing(server, copy.place / "own", audit, check_after_s=check_after_s) as running:
        await running.part._auditor.begun.wait()
        if check_after_s < NEVER_S:
            await running.has_checked()
        return await running.damages()


def nothing(_: Copy) -> None:
    pass


def cut(copy: Copy) -> None:
    Blocks(copy.data).truncate(copy.last - 2, 10)


def cut_after_a_crash(copy: Copy) -> None:
    copy.forget_index()
    cut(copy)


def spoilt_tail(copy: Copy) -> None:
    Blocks(copy.data).flip(copy.last - 3, -CHECKSUM_BYTES - 4)


def spoilt_after_a_crash(copy: Copy) -> None:
    copy.forget_index()
    Blocks(copy.data).flip(20, -CHECKSUM_BYTES - 4)


def wiped(copy: Copy) -> None:
    shutil.rmtree(copy.data / "nats" / "store")


def changed(copy: Copy) -> None:
    """The log is not what was noted: here it is the note that was changed, which is the same."""
    path = copy.audit / tail.FILE
    raw = bytearray(path.read_bytes())
    raw[-2 * LEAF_LINE + 20] ^= 1
    path.write_bytes(raw)


LAST, PROVEN = 62, 50


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (nothing, []),
        (cut, [("missing", LAST - 2, LAST)]),
        (cut_after_a_crash, [("truncated", LAST - 2, LAST)]),
        (spoilt_tail, [("missing", LAST - 3, LAST - 3)]),
        # The server gives up the rest of the block, and with it checkpoints that were in it.
        (spoilt_after_a_crash, [("truncated", 20, LAST)]),
        (wiped, [("truncated", 1, LAST)]),
        (changed, [("changed", LAST - 1, LAST - 1)]),
    ],
)
async def test_the_first_bad_sequence_is_named_at_the_start_also_when_its_number_was_given_again(
    copy: Copy, harm: Harm, expected: Found, goes_on: bool
) -> None:
    assert (copy.last, copy.proven) == (LAST, PROVEN)
    harm(copy)
    async with nats_in(copy.place) as server:
        writer = await server.connect("executor")
        if goes_on:
            await write(writer, 3, name="after")
        assert await found_by(server, copy) == expected
        # Told once, also when it is found again; and the chain has gone on.
        assert await found_by(server, copy) == expected
        last = await write(writer, 10, name="more")
        async with auditing(server, copy.place / "own") as audit:
            await audit.has_proven(last)
        await prove(writer)
        assert len(await damages(writer)) == len(expected)


async def test_what_rots_in_the_middle_is_found_by_the_slow_check(copy: Copy) -> None:
    Blocks(copy.data).flip(20, -CHECKSUM_BYTES - 4)
    async with nats_in(copy.place) as server:
        assert await found_by(server, copy) == []
        tail_only = Audit(checkpoint_events=10, checkpoint_s=86_400, check=Checking.TAIL)
        assert await found_by(server, copy, tail_only) == []
        assert await found_by(server, copy, check_after_s=0) == [("missing", 20, 20)]
        assert await found_by(server, copy, check_after_s=0) == [("missing", 20, 20)]


async def test_a_checkpoint_kept_outside_that_says_otherwise_than_the_log_is_damage(copy: Copy) -> None:
    """Whoever rewrites a log and signs it again does not reach the copy."""
    path = copy.audit / record.FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b'"missing":[]', b'"missing":[[13,13]]'), *lines[2:]]))
    async with nats_in(copy.place) as server:
        ((fault, *_),) = await found_by(server, copy, check_after_s=0)
        assert fault == "wrong_anchor"


@pytest.mark.parametrize("line", [1, -1])
async def test_a_record_that_has_rotted_is_not_taken_for_a_log_that_was_cut(copy: Copy, line: int) -> None:
    path = copy.audit / record.FILE
    lines = path.read_bytes().splitlines(keepends=True)
    last = msgspec.json.decode(lines[line])["checkpoint"]["last_sequence"]
    lines[line] = lines[line].replace(b'"last_sequence":%d' % last, b'"last_sequence":9%d' % last)
    path.write_bytes(b"".join(lines))
    async with nats_in(copy.place) as server:
        assert await found_by(server, copy, check_after_s=0) == []


async def test_what_the_start_finds_is_told_also_if_a_crash_comes_first(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy.audit / record.FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"hash":"', b'"hash":"0')]))

    async def crash(*_: object) -> None:
        raise RuntimeError("here it dies")

    async with nats_in(copy.place) as server:
        with monkeypatch.context() as broken:
            broken.setattr(Damages, "tell", crash)
            async with auditing(server, copy.place / "own", ends=False) as audit:
                with pytest.raises(ExceptionGroup):
                    await audit.running
        assert [fault for fault, *_ in await found_by(server, copy)] == ["broken_chain"]


async def test_a_sound_log_is_checked_to_its_end_without_a_complaint(copy: Copy) -> None:
    async with nats_in(copy.place) as server:
        async with auditing(server, copy.place / "own", EACH_TEN, check_after_s=0) as audit:
            await audit.has_checked()
            assert (await audit.state()).checked >= copy.last
        assert await damages(await server.connect("executor")) == []


async def test_what_is_proven_while_the_check_reads_is_not_taken_for_lost(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nats_in(copy.place) as server:
        writer = await server.connect("executor")
        async with auditing(server, copy.place / "own") as audit:
            await audit.part._auditor.begun.wait()
            read = in_thread

            async def later(call: Callable[..., Any], *arguments: Any) -> Any:
                if call is checking.KeptOutside:
                    await audit.has_proven(await write(writer, 20, name="meanwhile"))
                return await read(call, *arguments)

            monkeypatch.setattr(checking, "in_thread", later)
            assert await audit.part._checker.check()
            assert await audit.damages() == []


async def test_a_server_that_comes_back_with_less_is_noticed_by_a_service_that_went_on(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_look, waits = asyncio.Event(), asyncio.Event()
    may_look.set()

    async def idle(_: Pace) -> None:
        await asyncio.sleep(0.01)
        waits.set()
        await may_look.wait()

    monkeypatch.setattr(Pace, "idle", idle)
    older = tmp_path / "older"
    shutil.copytree(copy.data / "nats" / "store", older)
    async with nats_in(copy.place) as server:
        writer = await server.connect("executor")
        async with auditing(server, copy.place / "own", SELDOM) as audit:
            last = await write(writer, 5, name="after")
            await audit.has_seen(last)
            # It looks again only when more was written than there had been.
            may_look.clear()
            waits.clear()
            await waits.wait()
            watching = server.embedded._watching
            assert watching is not None
            watching.cancel()
            await server.embedded.stop()
            shutil.rmtree(copy.data / "nats" / "store")
            older.rename(copy.data / "nats" / "store")
            await server.embedded.start()
            await write(writer, 9, name="again")
            may_look.set()
            await audit.has_damages(1)
            assert await audit.damages() == [("truncated", copy.last + 1, last)]


async def test_without_its_files_the_audit_begins_with_what_the_log_says(copy: Copy) -> None:
    for name in (record.FILE, tail.FILE):
        os.unlink(copy.audit / name)
    async with nats_in(copy.place) as server:
        writer = await server.connect("executor")
        assert await found_by(server, copy) == []
        assert len((copy.audit / record.FILE).read_bytes().splitlines()) == len(await checkpoints(writer)) > 5
        await prove(writer)


async def test_nothing_is_compared_where_settings_say_so(copy: Copy) -> None:
    cut_after_a_crash(copy)
    off = Audit(checkpoint_events=10, checkpoint_s=86_400, check=Checking.OFF)
    async with nats_in(copy.place) as server:
        assert await found_by(server, copy, off) == []


@pytest.mark.parametrize(("block", "limited"), [(0, False), (0, True), (1, False)])
async def test_a_block_that_is_lost_is_named_though_the_log_then_seems_to_begin_later(
    tmp_path: Path, block: int, limited: bool
) -> None:
    bound = Limits(log_max_bytes=16 * 1024 * 1024)
    async with nats_in(tmp_path, provisioned=False) as server:
        # The server makes blocks of a quarter of the limit.
        await provision(await server.connect("admin"), bound, ("local",))
        writer = await server.connect("executor")
        async with auditing(server, tmp_path / "own") as audit:
            await audit.has_proven(await write(writer, 50, size=250_000))
        if not limited:
            await provision(await server.connect("admin"), Limits(), ("local",))
    blocks = Blocks(tmp_path / "data")
    assert len(blocks.files) > 2
    lost = blocks.of(blocks.files[block])
    blocks.files[block].unlink()
    async with nats_in(tmp_path, provisioned=False) as server:
        copy = Copy(tmp_path, 0, 0)
        expected = [] if limited else [("missing", lost[0], lost[-1])]
        assert await found_by(server, copy) == expected
        assert await found_by(server, copy) == expected
