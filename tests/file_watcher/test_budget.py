"""Whoever writes for ever does not fill the store: what is kept has a budget, and the store an end."""

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pytest

from contracts.errors import Unavailable
from contracts.events.file import EntryKind, FileError
from contracts.sight import Seen
from infra.blobs import layout
from infra.bus.connection import Bus
from infra.settings import Files
from services.file_watcher.budget import LONGEST_DEBT_S, Budget
from services.file_watcher.intake import _affordable
from services.file_watcher.taken import Taken
from tests.bus.servers import nats_in
from tests.file_watcher.mapped import settle
from tests.file_watcher.rig import Following, changes, facts, following, following_on, until_told

SIZE = 200_000
TIGHT = Files(quiet_ms=1, longest_ms=20, store_burst_bytes=300_000, store_bytes_per_s=1024)


async def complaints(bus: Bus) -> list[FileError]:
    return [fact for fact in await facts(bus) if isinstance(fact, FileError)]


async def bytes_stored(bus: Bus) -> int:
    return int((await bus.api(f"STREAM.INFO.{layout.STREAM}"))["state"]["bytes"])


async def test_a_file_that_is_rewritten_again_and_again_is_kept_now_and_then_and_at_a_flush(tmp_path: Path) -> None:
    async with following(tmp_path, files=TIGHT) as followed:
        await followed.flush()
        for number in range(6):
            (followed.root / "big").write_bytes(os.urandom(SIZE))
            (followed.root / f"small{number}").write_text("still told at once")
            await until_told(followed.bus, f"small{number}")
        assert [each.path for each in await changes(followed.bus)].count("/workspace/big") == 1
        assert await bytes_stored(followed.bus) < 2 * SIZE
        (error,) = await complaints(followed.bus)
        assert (error.path, error.failure.code) == ("/workspace", "UNAVAILABLE")
        assert "store_bytes_per_s" in error.failure.message
        assert await followed.check() == 7
        assert len(await complaints(followed.bus)) == 1


async def test_what_waits_is_told_as_it_is_once_there_is_budget(tmp_path: Path) -> None:
    files = Files(quiet_ms=1, longest_ms=20, store_burst_bytes=SIZE + 5000, store_bytes_per_s=SIZE)
    async with following(tmp_path, files=files) as followed:
        await followed.flush()
        for _ in range(2):
            (followed.root / "big").write_bytes(os.urandom(SIZE))
            (followed.root / "marker").write_text("looked at")
            await until_told(followed.bus, "marker")
            (followed.root / "marker").unlink()
        await _until_agreed(followed)


async def _until_agreed(followed: Following) -> None:
    """Without a flush, which would not wait."""
    last = (followed.root / "big").stat().st_mtime_ns // 1000
    async with asyncio.timeout(20):
        while last not in {each.facts.mtime_us for each in await changes(followed.bus) if each.facts}:
            await asyncio.sleep(0.05)


async def test_events_have_to_fit_too_and_a_flush_never_waits(tmp_path: Path) -> None:
    files = Files(quiet_ms=1, longest_ms=20, store_burst_bytes=0, store_bytes_per_s=1024)
    async with following(tmp_path, files=files) as followed:
        await followed.flush()
        for number in range(100):
            (followed.root / str(number)).mkdir()
        await until_told(followed.bus, "99")
        (followed.root / "later").mkdir()
        async with asyncio.timeout(20):
            while not await complaints(followed.bus):
                await asyncio.sleep(0.05)
        assert await followed.check() == 101


async def test_a_look_at_files_that_only_might_have_changed_costs_nothing(tmp_path: Path) -> None:
    patient = msgspec.structs.replace(TIGHT, quiet_ms=60_000, longest_ms=600_000, look_s=0.2)
    async with following(tmp_path, files=patient) as followed:
        await followed.flush()
        for number in range(3):
            (followed.root / f"big{number}").write_bytes(os.urandom(SIZE))
            await settle(followed.root / f"big{number}")
        await followed.flush()
        with (followed.root / "opened").open("ab", buffering=0) as file:
            (followed.root / "opened").rename(followed.root / "unnoticed")
            await followed.flush()
            os.link(followed.root / "unnoticed", followed.root / "linked")
            os.unlink(followed.root / "unnoticed")
            await followed.flush()
            file.write(b"found by a look at everything")
            async with asyncio.timeout(20):
                while 29 not in {each.facts.size for each in await changes(followed.bus) if each.facts}:
                    await asyncio.sleep(0.05)
        assert await complaints(followed.bus) == []


def test_a_budget_fills_up_and_is_never_in_debt_for_long() -> None:
    budget = Budget(1000, per_s=1 << 20)
    assert budget.has_recovered()
    assert budget.need(5000) == 1000
    budget.spend(1 << 40)
    assert budget.is_spent()
    assert not budget.has_recovered()
    assert time.monotonic() < budget.when(0) <= time.monotonic() + LONGEST_DEBT_S
    assert budget.when(1000) > budget.when(0)


def test_small_files_come_first_and_another_name_costs_nothing() -> None:
    def seen(size: int, inode: int) -> Seen:
        return Seen(EntryKind.FILE, 0o644, size, 0, 0, inode, 2, None)

    found = {b"huge": seen(900, 1), b"a": seen(300, 2), b"link to a": seen(300, 2), b"b": seen(200, 3)}
    taken = Taken()
    assert set(_affordable(list(found), found, Budget(600, 1024), taken)) == {b"a", b"link to a", b"b"}
    assert taken.waits == {b"huge": 900}


async def test_what_the_store_has_no_room_for_is_told_without_its_content_until_there_is(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, following_on(server.embedded.connect, tmp_path) as followed:
        admin = await server.connect("admin")
        config = (await admin.api(f"STREAM.INFO.{layout.STREAM}"))["config"]
        (followed.root / "first").write_text("has room")
        await followed.flush()
        await admin.api(f"STREAM.UPDATE.{layout.STREAM}", config | {"max_bytes": 50_000})
        for number in range(5):
            (followed.root / f"batch{number}").write_bytes(os.urandom(20_000))
        (followed.root / "small").write_bytes(os.urandom(100_000))
        (followed.root / "large").write_bytes(os.urandom(2_000_000))
        await followed.flush()
        with pytest.raises(Unavailable, match="no room"):
            for number in range(200):
                (followed.root / f"more{number}").write_text("x" * 200)
                await followed.flush(manifest=True)
        found = {each.path: each.facts for each in await changes(followed.bus)}
        small, large = found["/workspace/small"], found["/workspace/large"]
        assert small is not None
        assert large is not None
        assert (small.blob, large.blob) == (None, None)
        assert small.sha256 is not None
        assert large.sha256 is not None
        (error,) = {fact.failure.code for fact in await complaints(followed.bus)}
        assert error == "UNAVAILABLE"
        await followed.stop()
        await followed.start()
        await followed.flush()
        await admin.api(f"STREAM.UPDATE.{layout.STREAM}", config)
        assert await followed.check() > 8
