"""After a restart only what may have changed is read again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from contracts.manifest import Tree
from contracts.sight import Seen
from infra.watching import contents
from infra.watching.look import seen_of
from services.file_watcher.decide import entry_for
from services.file_watcher.remembered import Remembered
from services.file_watcher.told import Told
from tests.file_watcher.mapped import settle, stored_without_a_trace
from tests.file_watcher.rig import Following, as_things, following, in_log, on_disk, told
from tests.file_watcher.shell import sh

SIZE = 100_000
FILES = 30
SHA256 = "a" * 64


@pytest.fixture
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are known for good as soon as they are sure: nobody here has one mapped."""
    monkeypatch.setattr(contents, "WRITTEN_OUT_NS", contents.FRESH_NS)


async def with_many_files(followed: Following) -> int:
    """All of them known; answers the last sequence."""
    sh(followed.root, f"mkdir a b d; head -c {SIZE} /dev/urandom > a/f; head -c {SIZE} /dev/urandom > b/f")
    sh(followed.root, "touch -d 2020-01-01 a/f b/f; head -c 3000000 /dev/urandom > large")
    for number in range(FILES):
        (followed.root / "d" / str(number)).write_bytes(os.urandom(SIZE))
    await settle(followed.root / "d" / str(FILES - 1))
    return await followed.flush(manifest=True)


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.usefixtures("_old_at_once")
async def test_a_restart_reads_only_what_has_changed_meanwhile(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        last = await with_many_files(followed)
        await followed.stop()
        sh(followed.root, "echo changed > d/1; chmod 600 d/2; cp -p d/3 x; head -c 100000 /dev/urandom > d/3")
        sh(followed.root, "touch -r x d/3; rm x")
        before = bytes_read()
        await followed.start()
        await followed.flush()
        assert bytes_read() - before < SIZE * FILES / 2
        assert await told(followed.bus, last) == {("modified", f"d/{number}") for number in (1, 2, 3)}
        await followed.check()


@pytest.mark.usefixtures("_old_at_once")
async def test_files_that_changed_places_with_their_directories_are_not_taken_for_one_another(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        last = await with_many_files(followed)
        await followed.stop()
        sh(followed.root, "mv a x; mv b a; mv x b")
        await followed.start()
        await followed.check()
        assert ("modified", "a/f") in await told(followed.bus, last)


async def test_what_is_stored_through_a_mapping_while_nobody_looks_is_told(tmp_path: Path) -> None:
    async with following(tmp_path) as followed, stored_without_a_trace(followed):
        await followed.stop()
        await followed.start()
        await followed.flush()
        assert as_things(await in_log(followed.bus)) == on_disk(followed.root)


async def test_what_is_removed_is_forgotten(tmp_path: Path) -> None:
    async with following(tmp_path, started=False) as followed:
        followed.remembers.mkdir()
        (followed.remembers / "sb").write_text("of an earlier life")
        await followed.start()
        await followed.flush(final=True)
        await followed.stop()
        assert not list(followed.remembers.iterdir())


def a_file(place: Path) -> tuple[Tree, Seen]:
    place.mkdir()
    (place / "f").write_text("content")
    seen = seen_of((place / "f").stat())
    return {b"f": entry_for(b"f", seen, sha256=SHA256, blob=SHA256)}, seen


@contextmanager
def opened(place: Path) -> Iterator[int]:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_only_what_the_log_says_too_is_recalled_and_only_in_the_same_boot_and_workspace(tmp_path: Path) -> None:
    tree, seen = a_file(tmp_path / "workspace")
    boot, remembered = tmp_path / "boot", Remembered(tmp_path / "seen", tmp_path / "boot")
    boot.write_text("one")
    before = Told(dict(tree))
    before.saw(b"f", seen, sure=True, firm=True)
    entry = tree[b"f"]
    others = [
        {},
        {b"f": msgspec.structs.replace(entry, sha256="b" * 64, blob="b" * 64)},
        {b"f": msgspec.structs.replace(entry, blob=None)},
        {b"f": msgspec.structs.replace(entry, mode=0o600)},
    ]
    with opened(tmp_path / "workspace") as root, opened(tmp_path) as another:
        remembered.keep("sb", root, before)
        again = Told(dict(tree))
        assert remembered.recall("sb", root, again) == 1
        assert again.same(b"f", seen, firmly=True) == b"f"
        assert [remembered.recall("sb", root, Told(other)) for other in others] == [0, 0, 0, 0]
        assert remembered.recall("sb", another, Told(dict(tree))) == 0
        boot.write_text("two")
        assert remembered.recall("sb", root, Told(dict(tree))) == 0


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]\n", b"\xff\xfe\n"])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, garbage: bytes) -> None:
    tree, _ = a_file(tmp_path / "workspace")
    remembered = Remembered(tmp_path)
    (tmp_path / "sb").write_bytes(garbage)
    with opened(tmp_path / "workspace") as root:
        assert remembered.recall("sb", root, Told(tree)) == 0
    remembered.forget_all_but(["workspace"])
    assert not (tmp_path / "sb").exists()


def test_what_was_told_anew_is_not_known_by_what_was_seen_before(tmp_path: Path) -> None:
    tree, seen = a_file(tmp_path / "workspace")
    told_of = Told(dict(tree))
    told_of.saw(b"f", seen, sure=True)
    assert list(told_of.known()) == [], "somebody may have it mapped"
    told_of.saw(b"f", seen, sure=True, firm=True)
    assert len(list(told_of.known())) == 1
    told_of.put(b"f", msgspec.structs.replace(tree[b"f"], sha256="b" * 64, blob="b" * 64))
    assert list(told_of.known()) == []
