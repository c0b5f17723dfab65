"""Large, deep and slow directories: what is asked for is looked at, and nothing is left out in silence."""

import errno
import os
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from contracts.errors import SandboxWriteFailed, Unavailable
from contracts.files import GrepFiles, ListFiles
from infra.client.copying import ANSWER_S
from infra.files import entries, searching
from infra.files.entries import AT_A_TIME, list_files, walk
from infra.files.searching import grep_files
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


def a_deep_tree(ground: Ground, depth: int) -> None:
    here = os.open(ground.workspace, os.O_PATH)
    for _ in range(depth):
        os.mkdir(b"d" * 200, dir_fd=here)
        below = os.open(b"d" * 200, os.O_PATH, dir_fd=here)
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
