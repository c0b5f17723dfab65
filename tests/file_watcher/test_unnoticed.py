"""Changes that leave no trace where one would look for it."""

import asyncio
import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from contracts.events.file import Action, EntryKind, FileError
from contracts.sight import Seen
from infra.blobs import layout
from infra.bus.connection import Bus
from infra.settings import Files
from infra.watching import contents
from services.file_watcher.postponed import Postponed
from services.file_watcher.workspace import Workspace
from tests.file_watcher.mapped import stored_without_a_trace
from tests.file_watcher.rig import Following, as_things, changes, facts, following, in_log, on_disk, until_told
from tests.file_watcher.shell import flood, sh

SIZE = 100_000
NAMES = 200


async def test_what_is_stored_through_a_mapping_is_told_once_the_mapping_is_closed(tmp_path: Path) -> None:
    async with following(tmp_path) as followed, stored_without_a_trace(followed) as mapping:
        mapping.close()
        await followed.flush()
        assert as_things(await in_log(followed.bus)) == on_disk(followed.root)


async def test_a_snapshot_has_what_is_stored_through_a_mapping_that_is_still_open(tmp_path: Path) -> None:
    async with following(tmp_path) as followed, stored_without_a_trace(followed):
        await followed.check()


async def test_what_is_stored_through_a_mapping_is_told_even_if_notices_are_dropped(tmp_path: Path) -> None:
    async with following(tmp_path) as followed, stored_without_a_trace(followed) as mapping:
        await asyncio.to_thread(_close_unheard, followed, mapping)
        await followed.flush()
        assert as_things(await in_log(followed.bus)) == on_disk(followed.root)


def _close_unheard(followed: Following, mapping: mmap.mmap) -> None:
    with followed.watches.lock:
        flood(followed.root)
        mapping.close()


async def test_a_snapshot_has_what_the_kernel_gives_no_notice_of(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "echo 1 > opened; mkdir hidden; echo hidden > .clocheignore; echo 1 > shared")
        os.link(followed.root / "shared", followed.root / "hidden" / "shared")
        with (followed.root / "opened").open("ab", buffering=0) as renamed, _nameless(followed.root) as nameless:
            sh(followed.root, "ln opened linked; rm opened")
            # Only with a descriptor of a directory, which an absolute path does not need, is the link followed.
            os.link(f"/proc/self/fd/{nameless}", followed.root / "named", src_dir_fd=nameless, follow_symlinks=True)
            await followed.flush()
            renamed.write(b"2\n")
            os.write(nameless, b"2\n")
            sh(followed.root, "echo 22 >> hidden/shared")
            await followed.flush(manifest=True)
            assert await _sizes(followed) == {"linked": 4, "named": 2, "shared": 5}
            renamed.write(b"3\n")
            await followed.flush(final=True)
            assert (await _sizes(followed))["linked"] == 6


@contextmanager
def _nameless(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _sizes(followed: Following) -> dict[str, int]:
    found = {each.path.removeprefix("/workspace/"): each.facts for each in await changes(followed.bus)}
    return {path: facts.size for path, facts in found.items() if facts and path in ("linked", "named", "shared")}


async def test_what_the_kernel_gives_no_notice_of_is_found_in_time(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=10, look_s=0.2)) as followed:
        await followed.flush()
        with (followed.root / "opened").open("ab", buffering=0) as file:
            sh(followed.root, "ln opened linked; rm opened")
            await followed.flush()
            file.write(b"late")
            await _until_size(followed.bus, "linked", 4)


async def _until_size(bus: Bus, path: str, size: int) -> None:
    async with asyncio.timeout(20):
        while size not in {each.facts.size for each in await changes(bus) if each.path.endswith(path) and each.facts}:
            await asyncio.sleep(0.05)


async def test_a_file_of_many_names_is_read_and_stored_once(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        (followed.root / "0").write_bytes(os.urandom(SIZE))
        for number in range(1, NAMES):
            os.link(followed.root / "0", followed.root / str(number))
        await followed.check()
        read = _bytes_read()
        for number in range(NAMES):
            (followed.root / str(number)).rename(followed.root / f"new{number}")
        sh(followed.root, "echo more >> new7")
        await followed.flush()
        assert _bytes_read() - read < SIZE * NAMES / 2
        await followed.check()


async def test_a_large_file_that_was_touched_or_moved_is_not_uploaded_again(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "head -c 3000000 /dev/urandom > large")
        await followed.flush()
        stored = await _last_stored(followed.bus)
        sh(followed.root, "touch large")
        await followed.flush()
        sh(followed.root, "mv large moved")
        await followed.flush()
        assert [each.action for each in await changes(followed.bus)] == [Action.CREATED, Action.MODIFIED, Action.MOVED]
        assert await _last_stored(followed.bus) == stored
        await followed.flush(manifest=True)
        stored = await _last_stored(followed.bus)
        await followed.stop()
        await followed.start()
        await followed.flush()
        assert await _last_stored(followed.bus) == stored
        await followed.check()


async def _last_stored(bus: Bus) -> int:
    return int((await bus.api(f"STREAM.INFO.{layout.STREAM}"))["state"]["last_seq"])


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


async def test_running_out_of_descriptors_for_a_moment_is_not_for_ever(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=10, rescan_s=0.2)) as followed:
        sh(followed.root, "mkdir d; echo 1 > d/before")
        await followed.flush()
        sh(followed.root, "echo 2 > d/before; mkdir -p e/f; echo 1 > e/f/new")
        with _no_more_descriptors():
            await followed.flush()
        assert any(isinstance(fact, FileError) for fact in await facts(followed.bus))
        await until_told(followed.bus, "e/f/new")
        await followed.check()


async def test_what_cannot_be_read_for_a_moment_at_the_end_is_tried_again(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        sh(followed.root, "mkdir -p d/e; echo 1 > d/e/before")
        await followed.flush()
        sh(followed.root, "echo 22 > d/e/before; echo 1 > d/e/new")
        with _no_more_descriptors():
            flushing = asyncio.create_task(followed.flush(final=True))
            async with asyncio.timeout(20):
                while not any(isinstance(fact, FileError) for fact in await facts(followed.bus)):
                    await asyncio.sleep(0.01)
        await flushing
        assert as_things(await in_log(followed.bus)) == on_disk(followed.root)


def test_rules_are_not_forgotten_when_descriptors_run_out(tmp_path: Path) -> None:
    (tmp_path / ".clocheignore").write_text("hidden")
    with Workspace(tmp_path) as workspace:
        with _no_more_descriptors():
            assert not workspace.reload_rules()
            assert workspace.rules_trouble is not None
            assert workspace.rules.ignores(b"hidden", False)
        (tmp_path / ".clocheignore").unlink()
        assert workspace.reload_rules()
        assert not workspace.rules.ignores(b"hidden", False)


@contextmanager
def _no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_directory_in_the_place_of_a_large_file_is_told_at_once(tmp_path: Path) -> None:
    async with following(tmp_path, files=Files(quiet_ms=1)) as followed:
        sh(followed.root, "head -c 30000000 /dev/zero > place")
        await followed.flush()
        sh(followed.root, "rm place; mkdir place; echo 1 > place/in")
        await until_told(followed.bus, "place/in")
        kinds = [each.facts.kind for each in await changes(followed.bus) if each.path.endswith("place") and each.facts]
        assert kinds == [EntryKind.FILE, EntryKind.DIRECTORY]


@pytest.mark.parametrize(("kind", "size"), [(EntryKind.DIRECTORY, 0), (EntryKind.FILE, 1), (EntryKind.SYMLINK, 0)])
def test_only_large_files_wait_for_their_turn(kind: EntryKind, size: int) -> None:
    postponed = Postponed()
    postponed.stored(b"a", 60 << 20)
    large = Seen(EntryKind.FILE, 0o644, 60 << 20, 0, 0, 1, 1, None)
    assert postponed.sort_out({b"a": large}) == {b"a"}
    assert postponed.sort_out({b"a": large._replace(kind=kind, size=size)}) == set()


def test_a_file_that_changed_just_before_it_was_read_is_not_settled_however_long_that_took(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    info = (tmp_path / "a").stat()
    assert not contents.is_settled(info, info.st_ctime_ns + contents.FRESH_NS)
    assert contents.is_settled(info, info.st_ctime_ns + contents.FRESH_NS + 1)
