import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.manifest.ignore import MAX_PATTERNS, Rules


def read(directory: Path) -> Rules:
    root = os.open(directory, os.O_RDONLY)
    try:
        return Rules.read(root)
    finally:
        os.close(root)


LEFT_ALONE = (".git/config", "node_modules/a/index.js", ".venv/bin/python", "a~", "build/out.o", ".clocheignore", "swp")


@pytest.mark.parametrize("text", ["", "# nothing\n\n", "other\n"])
def test_by_default_only_what_is_nobodys_work_is_ignored(text: str) -> None:
    rules = Rules(text)
    for path in (".a.txt.swp", "deep/.b.swo", "c.swx", "src/.#main.py", ".nfs0001", "x/.DS_Store"):
        assert rules.ignores(path.encode(), False), path
    for path in LEFT_ALONE:
        assert not rules.ignores(path.encode(), False), path


def test_a_workspace_adds_its_own_rules_in_git_syntax_and_takes_back_defaults() -> None:
    rules = Rules("*.o\n/dist/\n!keep.swp\ndocs/**/*.tmp\n!main.o\n")
    for path, is_directory in ((b"a/b.o", False), (b"dist", True), (b"dist/x", False), (b"docs/a/b/c.tmp", False)):
        assert rules.ignores(path, is_directory), path
    for path in (b"main.o", b"dist", b"keep.swp", b"sub/dist/x", b"c.tmp"):
        assert not rules.ignores(path, False), path


def test_the_rules_themselves_and_the_workspace_are_never_ignored() -> None:
    rules = Rules("*\n.clocheignore\n")
    assert rules.ignores(b"anything", False)
    assert not rules.ignores(b".clocheignore", False)
    assert not rules.ignores(b"", True)


def test_a_name_that_is_not_utf_8_is_matched_by_its_spelling() -> None:
    assert Rules("*.log\n").ignores(b"caf\xe9.log", False)
    assert not Rules("*.log\n").ignores(b"caf\xe9.txt", False)


def test_lines_that_are_no_patterns_are_told_and_ignore_nothing() -> None:
    rules = Rules("!\n[z-a]\n*.o\n")
    assert rules.refused == ("!", "[z-a]")
    assert rules.ignores(b"a.o", False)
    assert not rules.ignores(b"z", False)


def test_a_hostile_pattern_costs_no_more_than_its_length() -> None:
    """By backtracking this one would take longer than anybody lives."""
    rules = Rules("*a" * 60 + "b\n")
    assert not rules.ignores(b"a" * 250, False)


def test_too_many_patterns_are_cut_off() -> None:
    rules = Rules("".join(f"name{number}\n" for number in range(MAX_PATTERNS + 5)))
    assert rules.ignores(b"name3", False)
    assert not rules.ignores(f"name{MAX_PATTERNS + 1}".encode(), False)
    assert len(rules.refused) == 5


def test_rules_are_read_from_a_plain_file_only(tmp_path: Path) -> None:
    assert not read(tmp_path).text
    file = tmp_path / ".clocheignore"
    file.write_text("*.o\n")
    assert read(tmp_path).ignores(b"a.o", False)
    outside = tmp_path / "outside"
    outside.write_text("*\n")
    makers: tuple[Callable[[], None], ...] = (lambda: file.symlink_to(outside), lambda: os.mkfifo(file), file.mkdir)
    for make in makers:
        file.unlink()
        make()
        assert not read(tmp_path).text
    file.rmdir()
    file.write_bytes(b"\xff\xfe\n*.o\n")
    assert read(tmp_path).ignores(b"a.o", False)
