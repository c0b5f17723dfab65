"""The file of a backup is whole or is not there, and a damaged one names its place."""

import os
import stat
import tarfile
from pathlib import Path

import pytest

from contracts.errors import Invalid
from infra.backup.archive import Writer, check, members

CONTENTS = {
    "cloche-backup.json": b"{}",
    "streams/LOG/00000001": os.urandom(70_000),
    "streams/LOG/00000002": b"",
    "z": b"z",
}
TAR_BLOCK = 512


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "whole"
    with Writer(path) as writer:
        for name, content in CONTENTS.items():
            writer.add(name, content)
    return path


def test_what_was_written_is_read_in_its_order_by_its_owner_alone(file: Path) -> None:
    assert {member.name: member.content.read() for member in members(file)} == CONTENTS
    assert [each.name for each in check(file)] == list(CONTENTS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_backup_is_never_written_over(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(Invalid, match="exists"):
        Writer(file)
    assert file.read_bytes() == before


def test_one_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Writer(tmp_path / "half") as writer:
        writer.add("a", b"a")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("at", "named"),
    [
        (0, "at byte 0"),
        (TAR_BLOCK + 1, "cloche-backup.json"),
        (2 * TAR_BLOCK + 7, "behind 'cloche-backup.json', at byte 1024"),
        (3 * TAR_BLOCK + 60_000, "streams/LOG/00000001"),
    ],
)
def test_a_flipped_bit_is_told_with_its_place(file: Path, at: int, named: str) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)
    with pytest.raises(Invalid, match="damaged") as refused:
        check(file)
    assert named in str(refused.value)


def test_wherever_a_bit_is_flipped_in_what_was_written_it_is_told(file: Path) -> None:
    whole = file.read_bytes()
    for at in range(0, 80 * TAR_BLOCK, 499):
        content = bytearray(whole)
        content[at] ^= 1
        file.write_bytes(content)
        try:
            check(file)
        except Invalid:
            continue
        assert {member.name: member.content.read() for member in members(file)} == CONTENTS, at


@pytest.mark.parametrize("kept", [0, 100, 512, 3000, 60_000, -20_000])
def test_one_that_was_cut_is_told(file: Path, kept: int) -> None:
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(Invalid, match=r"damaged|cut off"):
        check(file)


def test_another_file_is_no_backup(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"hello\n" * 1000)
    with pytest.raises(Invalid, match="at byte 0"):
        check(other)


@pytest.mark.parametrize("name", ["sums.json", "streams/LOG/00000001"])
def test_a_small_file_that_says_it_is_huge_is_refused(tmp_path: Path, name: str) -> None:
    """As a sparse member may: in a few kilobytes it would be a terabyte."""
    path = tmp_path / "sparse"
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo(name)
        member.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": f"0,0,{1 << 40},0"}
        member.pax_headers |= {"GNU.sparse.size": str(1 << 40)}
        tar.addfile(member)
    with pytest.raises(Invalid):
        check(path)
    with pytest.raises(Invalid):
        list(members(path))
