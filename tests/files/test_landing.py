"""A download writes beneath its place and nowhere else, whatever the sandbox calls its files."""

import os
from pathlib import Path

import pytest

from contracts.errors import ClocheError, SandboxPathDenied
from contracts.events.file import EntryKind
from contracts.files import FileEntry
from contracts.transfers import DownloadPiece
from infra.client.landing import Landing

ENTRY = FileEntry(path="/workspace/x", kind=EntryKind.FILE, size=1, mode=0o640, mtime_us=1_000_000)
WHOLE = DownloadPiece(offset=0, size=1, data=b"x", version="1")


def files_in(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*")}


@pytest.mark.parametrize("name", [b"../x", b"a/../../x", b"/etc/x", b"a//x", b".", b"..", b"a\0b", b"d/" * 300 + b"x"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "here").mkdir()
    with Landing.open(tmp_path / "here/top") as landing:
        for act in (
            lambda: landing.piece(name, WHOLE, ENTRY),
            lambda: landing.directory(name, 0o755),
            lambda: landing.link(name, b"target"),
        ):
            with pytest.raises(ClocheError):
                act()
    assert files_in(tmp_path) == {"here"}


def test_nothing_is_written_through_a_link_that_came_before(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_text("kept")
    with Landing.open(tmp_path / "here/top") as landing:
        landing.directory(b"", 0o755)
        landing.link(b"out", os.fsencode(tmp_path / "outside"))
        landing.link(b"up", b"../../outside")
        landing.link(b"x", b"../../outside/x")
        for name in (b"out/x", b"up/x", b"out/new/x", b"x"):
            with pytest.raises(SandboxPathDenied):
                landing.piece(name, WHOLE, ENTRY)
        with pytest.raises(SandboxPathDenied):
            landing.directory(b"up/made", 0o755)
    assert (tmp_path / "outside/x").read_text() == "kept"
    assert files_in(tmp_path / "outside") == {"x"}
    assert files_in(tmp_path / "here") == {"top", "top/out", "top/up", "top/x"}


def test_a_file_is_there_when_it_is_whole_and_half_of_one_is_not(tmp_path: Path) -> None:
    with Landing.open(tmp_path / "file") as landing:
        assert not landing.piece(b"", DownloadPiece(offset=0, size=2, data=b"a", version="1"), ENTRY)
        assert not (tmp_path / "file").exists()
        assert landing.piece(b"", DownloadPiece(offset=1, size=2, data=b"b", version="1"), ENTRY)
        assert not landing.piece(b"", DownloadPiece(offset=0, size=9, data=b"half", version="2"), ENTRY)
    made = tmp_path / "file"
    assert (made.read_bytes(), made.stat().st_mode & 0o777, made.stat().st_mtime) == (b"ab", 0o640, 1.0)
    assert files_in(tmp_path) == {"file"}


def test_directories_that_are_closed_are_closed_at_the_end(tmp_path: Path) -> None:
    with Landing.open(tmp_path / "top") as landing:
        landing.directory(b"", 0o755)
        landing.directory(b"closed", 0o555)
        landing.piece(b"closed/x", WHOLE, ENTRY)
        landing.finish()
    assert (tmp_path / "top/closed").stat().st_mode & 0o777 == 0o555
    (tmp_path / "top/closed").chmod(0o755)
