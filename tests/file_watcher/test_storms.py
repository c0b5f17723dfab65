"""Bursts, lost notices, restarts: the end state is never lost, and nothing is told that is not so."""

import asyncio
from pathlib import Path

import pytest

from contracts.changes import changes_of
from contracts.errors import ClocheError
from contracts.events.file import FileBatch, FileDeleted, FileManifest, FileOverflow
from infra.bus import reader
from infra.journal import Journal
from infra.settings import Files
from infra.watching.watches import Watches
from tests.file_watcher.rig import changes, facts, following, told, until_told
from tests.file_watcher.shell import flood, sh, storm

MOST_EVENT_BYTES = 512 * 1024


async def test_a_storm_ends_with_log_manifest_and_disk_agreeing(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.flush()
        with storm(followed.root, 1, 4000) as process:
            await asyncio.to_thread(process.wait)
        assert await followed.check() > 500


async def test_a_storm_neither_floods_the_log_nor_makes_an_event_too_large(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.flush()
        sh(
            followed.root,
            "for d in $(seq 60); do mkdir p$d; (cd p$d; for f in $(seq 50); do echo $d $f > $f; done); done",
        )
        assert await followed.check() == 3060
        batches = [fact for fact in await facts(followed.bus) if isinstance(fact, FileBatch)]
        assert sum(len(changes_of(batch)) for batch in batches) >= 3060
        assert len(await facts(followed.bus)) < 300
        entries = [entry async for entry in reader.read(followed.bus, ["cloche.log.sb.>"], 1, follow=False)]
        assert max(len(entry.data) for entry in entries) < MOST_EVENT_BYTES


async def test_after_many_changes_a_manifest_saves_readers_the_way_back(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "for f in $(seq 400); do echo $f > $f; done")
        await followed.flush()
        for _ in range(3):
            assert not any(isinstance(fact, FileManifest) for fact in await facts(followed.bus))
            sh(followed.root, "for f in $(seq 300); do echo more >> $f; done")
            await followed.flush()
        assert any(isinstance(fact, FileManifest) for fact in await facts(followed.bus))
        await followed.check()


async def test_of_a_burst_on_one_file_only_the_end_is_told(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=300, longest_ms=60_000)) as followed:
        before = await followed.flush()
        for number in range(100):
            (followed.root / "counter").write_text(str(number))
        change = await until_told(followed.bus, "counter")
        assert change.facts is not None
        assert (change.facts.size, len(await changes(followed.bus, before))) == (2, 1)


async def test_a_restart_tells_only_what_differs(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir d; echo 1 > d/same; echo 1 > d/changed; echo 1 > d/gone; ln -s d/same link")
        before = await followed.flush()
        await followed.stop()
        sh(followed.root, "echo 2 > d/changed; rm d/gone; echo 1 > d/new; cat d/same > d/x; mv d/x d/same2")
        await followed.start()
        await followed.flush()
        assert await told(followed.bus, before) == {
            ("modified", "d/changed"),
            ("deleted", "d/gone"),
            ("created", "d/new"),
            ("created", "d/same2"),
        }
        quiet = await followed.flush()
        await followed.stop()
        await followed.start()
        await followed.check()
        assert await told(followed.bus, quiet) == set()


async def test_killed_again_and_again_during_a_storm_it_comes_out_right(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        with storm(followed.root, 2, 3000) as process:
            while process.poll() is None:
                await asyncio.sleep(0.1)
                await followed.stop()
                await followed.start()
        await followed.check()


async def test_dropped_notices_are_told_and_made_up_for(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "echo 1 > kept; echo 1 > removed")
        await followed.flush()
        await asyncio.to_thread(_flood, followed.watches, followed.root)
        await followed.check()
        assert any(isinstance(fact, FileOverflow) for fact in await facts(followed.bus))


def _flood(watches: Watches, root: Path) -> None:
    with watches.lock:
        flood(root)
        (root / "unheard").mkdir()
        (root / "unheard" / "of").write_text("this")
        (root / "removed").unlink()


async def test_a_file_that_never_rests_is_told_as_it_was_at_some_moment(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        stop = asyncio.Event()
        writing = asyncio.create_task(asyncio.to_thread(_rewrite, followed.root / "busy", stop))
        for _ in range(10):
            await followed.flush()
        stop.set()
        await writing
        await followed.check()
        sizes = {each.facts.size for each in await changes(followed.bus) if each.facts}
        assert len(sizes) > 1


def _rewrite(path: Path, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        path.write_bytes(b"%d" % (number % 10) * (number % 200_000))
        number += 7919


async def test_a_large_file_is_kept_in_flat_memory_and_one_beyond_the_limit_is_only_told(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=20, max_blob_bytes=5 << 20)) as followed:
        sh(followed.root, "head -c 4000000 /dev/urandom > large; truncate -s 1T huge")
        await followed.flush()
        found = {each.path: each.facts for each in await changes(followed.bus)}
        large, huge = found["/workspace/large"], found["/workspace/huge"]
        assert large is not None
        assert huge is not None
        assert large.blob is not None
        assert (huge.size, huge.blob, huge.sha256) == (1 << 40, None, None)


async def test_a_large_file_that_grows_is_not_stored_at_every_look(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=1, longest_ms=20)) as followed:
        await followed.flush()
        with (followed.root / "large").open("ab", buffering=0) as file:
            for _ in range(40):
                file.write(b"x" * 400_000)
                await asyncio.sleep(0.01)
        await followed.check()
        assert 1 <= len(await changes(followed.bus)) < 12


async def test_what_another_writer_said_of_the_files_is_found_and_put_right(tmp_path: Path) -> None:
    async with following(tmp_path) as followed, await followed.connect("file_watcher") as other:
        sh(followed.root, "echo 1 > here; echo 1 > too")
        last = await followed.flush()
        journal = Journal(other, service="file_watcher", node="elsewhere")
        await journal.append(journal.write("sb", FileDeleted(path="/workspace/here"), id="forged"))
        sh(followed.root, "echo 2 > too")
        await followed.check()
        assert await told(followed.bus, last) == {("deleted", "here"), ("created", "here"), ("modified", "too")}


async def test_a_final_flush_is_the_last_that_is_told(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "echo 1 > a")
        last = await followed.flush(final=True)
        sh(followed.root, "rm a")
        assert await followed.flush() == last
        assert await told(followed.bus, last) == set()


async def test_a_workspace_that_is_moved_away_was_not_emptied(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir d; echo 1 > d/a")
        last = await followed.flush()
        followed.root.rename(tmp_path / "trash")
        sh(tmp_path, "rm -r trash")
        with pytest.raises(ClocheError):
            await followed.flush()
        assert await told(followed.bus, last) == set()
