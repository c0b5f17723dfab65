"""`cloche files`, as a person at a shell has it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell, up_in


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("node")) as shell:
        assert shell("create", "--id", "sb").code == 0
        yield shell


def test_files_are_written_shown_edited_found_and_removed(cloche: Shell) -> None:
    assert cloche("files", "write", "sb", "src/a.py", stdin=b"one\ntwo\nthree\n").out == b"/workspace/src/a.py 14\n"
    shown = cloche("files", "read", "sb", "src/a.py", "--offset", "2", "--limit", "1", "-n")
    assert shown.out == b"     2  two\n"
    assert b"--offset 3" in shown.err
    assert cloche("files", "edit", "sb", "src/a.py", "two", "2").out == b"/workspace/src/a.py:2 1 replaced\n"
    assert cloche("files", "ls", "sb", "src").out == b"-644           12 /workspace/src/a.py\n"
    assert cloche("files", "glob", "sb", "**/*.py").out == b"/workspace/src/a.py\n"
    assert cloche("files", "grep", "sb", "^t.*e", "-C", "1").out == (
        b"/workspace/src/a.py-2-2\n/workspace/src/a.py:3:three\n"
    )
    assert cloche("files", "grep", "sb", "nowhere").code == 1
    entry = json.loads(cloche("files", "stat", "sb", "src/a.py", "--json").out)
    assert (entry["kind"], entry["size"], entry["mode"]) == ("file", 12, 0o644)
    assert cloche("files", "mv", "sb", "src/a.py", "b").out == b"/workspace/b\n"
    assert cloche("files", "mkdir", "sb", "x/y").code == 0
    assert cloche("files", "rm", "sb", "x").code == 2
    assert cloche("files", "rm", "-r", "sb", "x").out == b"/workspace/x 2\n"
    said = cloche("files", "read", "sb", "src/a.py")
    assert (said.code, said.out) == (2, b"")
    assert said.err == b"cloche: /workspace/src/a.py: no such file or directory\n"
    tools = cloche("events", "sb", "--type", "tool", "--json").out.splitlines()
    assert len(tools) == 2 * 13


def test_a_tree_is_put_and_got(cloche: Shell, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "bin").mkdir(parents=True)
    (top / "bin/run").write_bytes(os.urandom(1_000_000))
    (top / "bin/run").chmod(0o755)
    assert cloche("files", "put", "sb", str(top)).out == b"/workspace/tree 1 files 1000000 bytes\n"
    (tmp_path / "back").mkdir()
    assert cloche("files", "get", "sb", "tree", str(tmp_path / "back")).code == 0
    copy = tmp_path / "back/tree/bin/run"
    assert copy.read_bytes() == (top / "bin/run").read_bytes()
    assert copy.stat().st_mode == (top / "bin/run").stat().st_mode


def test_a_name_from_inside_moves_no_cursor(cloche: Shell) -> None:
    assert cloche("exec", "sb", "--", "touch", "\x1b[2Jgone").code == 0
    assert b"\x1b" not in cloche("files", "ls", "sb").out


def test_a_line_from_inside_moves_no_cursor(cloche: Shell) -> None:
    cloche("files", "write", "sb", "lines", stdin=b"before\x1b[2J\nneedle\x1b[2J\ttab\nafter\x1b[2J\n")
    found = cloche("files", "grep", "sb", "needle", "lines", "-C", "1").out
    assert b"\x1b" not in found
    assert b"/workspace/lines:2:needle\\x1b[2J\ttab\n" in found


def test_the_help_teaches(cloche: Shell) -> None:
    said = cloche("files", "--help").out.decode()
    for verb in ("read", "write", "edit", "ls", "glob", "grep", "stat", "mkdir", "rm", "mv", "put", "get"):
        assert f" {verb} " in said
    assert "/workspace/src/a.py" in said
