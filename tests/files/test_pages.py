"""Large, deep and slow directories: what is asked for is looked at, and nothing is left out in silence."""

import errno
import os
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pytest
from msgspec import Struct

from contracts import codec
from contracts.errors import Invalid, SandboxWriteFailed, Unavailable
from contracts.files import FileEntry, GlobFiles, GrepFiles, ListFiles, MoveFile, ReadFile, RemoveFile, StatFile
from contracts.transfers import DownloadPieces, WantedPiece
from infra.client.copying import ANSWER_S
from infra.files import directories, entries, searching
from infra.files.changing import move_file, remove_file
from infra.files.downloading import give_pieces
from infra.files.entries import AT_A_TIME, glob_files, list_files, stat_file, walk
from infra.files.reading import read_file
from infra.files.searching import grep_files
from infra.files.transfers import Transfer
from infra.files.trouble import situation
from infra.files.workspace import Workspace
from tests.files.workspaces import Ground


def test_a_page_looks_only_at_what_it_shows(tmp_path: Path) -> None:
    """What is removed after the first entry was given is missing from those that are looked at later."""
    ground = Ground(tmp_path)
    for number in range(3 * AT_A_TIME):
        (ground.workspace / f"{number:04}").touch()
    with ground.open() as workspace:
        going = walk(workspace, (), recursive=False)
        first = next(going)
        for number in range(AT_A_TIME, 3 * AT_A_TIME):
            (ground.workspace / f"{number:04}").unlink()
        assert len([first, *going]) == AT_A_TIME


def test_a_page_that_takes_too_long_says_where_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(tmp_path)
    for number in range(20):
        (ground.workspace / f"{number:04}").touch()
    assert entries.PATIENCE_S < ANSWER_S
    monkeypatch.setattr(entries, "PATIENCE_S", -1.0)
    found: list[str] = []
    after: str | None = None
    with ground.open() as workspace:
        while True:
            page = list_files(workspace, ListFiles(after=after))
            assert len(page.entries) <= 1
            found += [entry.path for entry in page.entries]
            if (after := page.next) is None:
                break
    assert found == [f"/workspace/{number:04}" for number in range(20)]


@pytest.mark.parametrize("at_a_time", [1, 3, 10])
def test_a_directory_is_gone_through_part_by_part(
    tmp_path: Path, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many names it has, few are in memory."""
    ground = Ground(tmp_path)
    for number in range(10):
        (ground.workspace / f"d{number}").mkdir()
        (ground.workspace / f"d{number}/needle").write_text("needle\n")
        (ground.workspace / f"f{number}").write_text("needle\n")
    ground.give()
    everything = sorted(str(path.relative_to(tmp_path / "host")) for path in ground.workspace.rglob("*"))
    for module in (directories, searching):
        monkeypatch.setattr(module, "AT_A_TIME", at_a_time)
    with ground.open() as workspace, workspace.directory(()) as directory:
        assert len(directories.sorted_names(directory)) == len(directories.some_names(directory)) == at_a_time
        found = [f"workspace/{os.fsdecode(b'/'.join(child.names))}" for child in walk(workspace, (), recursive=True)]
        assert found == everything
        matches = [match.path for match in grep_files(workspace, GrepFiles(pattern="needle")).matches]
        assert matches == [f"/workspace/f{n}" for n in range(10)] + [f"/workspace/d{n}/needle" for n in range(10)]
        (ground.workspace / "d0/e").mkdir()
        for number in range(1, 10):
            (ground.workspace / f"d{number}").rename(ground.workspace / f"d0/e/d{number}")
        assert remove_file(workspace, RemoveFile(path="d0", recursive=True)).entries == 21


def a_deep_tree(ground: Ground, depth: int, name: bytes = b"d" * 200) -> None:
    here = os.open(ground.workspace, os.O_PATH)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    with open(os.open("bottom", os.O_WRONLY, dir_fd=here), "w") as file:
        file.write("needle\n")
    os.close(here)


def the_bottom(workspace: Workspace) -> tuple[int, int]:
    listed = sum(1 for child in walk(workspace, (), recursive=True) if child.names[-1] == b"bottom")
    return listed, len(grep_files(workspace, GrepFiles(pattern="needle")).matches)


def test_a_tree_deeper_than_a_path_is_seen_to_its_bottom(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    a_deep_tree(ground, 25)
    os.chown(ground.workspace, os.geteuid(), os.getegid())
    with ground.open() as workspace:
        assert the_bottom(workspace) == (1, 1)


def test_every_path_that_is_listed_can_be_asked_for(tmp_path: Path) -> None:
    """In requests as they come over the bus."""
    ground = Ground(tmp_path)
    a_deep_tree(ground, 78)
    os.chown(ground.workspace, os.geteuid(), os.getegid())
    transfer = Transfer(kind="download", sandbox="sb", transfer="t", call="c", asked_by=None, path="", begun_ns=0)
    with ground.open() as workspace:
        found: list[FileEntry] = []
        after: str | None = None
        while True:
            page = list_files(workspace, over_the_bus(ListFiles(recursive=True, after=after, limit=7)))
            found += page.entries
            if (after := page.next) is None:
                break
        assert [entry.kind for entry in found] == ["directory"] * 78 + ["file"]
        bottom = found[-1].path
        assert len(bottom) > 15_000
        assert read_file(workspace, over_the_bus(ReadFile(path=bottom))).content == "needle\n"
        wanted = DownloadPieces(transfer="t", wanted=(WantedPiece(path=bottom),))
        assert give_pieces(workspace, over_the_bus(wanted), transfer).page.pieces[0].data == b"needle\n"
        beside = bottom.replace("bottom", "b\xfc")
        move_file(workspace, over_the_bus(MoveFile(path=bottom, to=beside)))
        assert stat_file(workspace, over_the_bus(StatFile(path=beside))).size == 7


@pytest.mark.parametrize("depth", [100, 300])
def test_what_is_too_deep_is_counted_and_has_its_code(tmp_path: Path, depth: int) -> None:
    ground = Ground(tmp_path)
    a_deep_tree(ground, depth, name=b"d" * (200 if depth == 100 else 1))
    os.chown(ground.workspace, os.geteuid(), os.getegid())
    with ground.open() as workspace:
        listed = list_files(workspace, ListFiles(recursive=True))
        assert (len(listed.entries) < depth, listed.too_deep) == (True, 1)
        assert glob_files(workspace, GlobFiles(pattern="**/bottom")).too_deep == 1
        assert grep_files(workspace, GrepFiles(pattern="needle")).too_deep == 1
        beneath = f"{listed.entries[-1].path}/{'d' * 200}/{'d' * 200}"
        with pytest.raises(Invalid, match="names at most"):
            stat_file(workspace, over_the_bus(StatFile(path=beneath)))
        assert list_files(workspace, ListFiles()).too_deep == 0


Request = TypeVar("Request", bound=Struct)


def over_the_bus(request: Request) -> Request:
    came: Request = codec.decode(codec.encode(request), type(request))
    return came


@pytest.mark.parametrize("content", [b"", b"\x00binary"])
def test_the_clock_is_looked_at_for_files_without_text_too(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(tmp_path)
    for number in range(5):
        (ground.workspace / f"{number}").write_bytes(content)
    ground.give()
    now = count()
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    with ground.open() as workspace:
        answer = grep_files(workspace, GrepFiles(pattern="x", timeout_ms=10_000))
    assert (answer.truncated, answer.truncated_by) == (True, "time")
    assert answer.files_searched < 5


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_the_nodes_own_limits_are_no_fault_of_the_file(number: int) -> None:
    assert isinstance(situation(OSError(number, ""), "/workspace/a"), Unavailable)


def test_a_disk_that_fails_is_told_by_what_was_tried() -> None:
    assert isinstance(situation(OSError(errno.EIO, ""), "/workspace/a", Unavailable), Unavailable)
    assert isinstance(situation(OSError(errno.EIO, ""), "/workspace/a"), SandboxWriteFailed)
