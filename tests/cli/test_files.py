"""`cloche files`, as a person at a shell has it."""

import base64
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Said, Shell, up_in


@pytest.fixture(scope="module")
def cloche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with up_in(tmp_path_factory.mktemp("node")) as shell:
        assert shell("create", "--id", "sb").code == 0
        assert shell("exec", "sb", "--", "sh", "-c", "mkdir full; echo a > full/a; echo b > full/b").code == 0
        yield shell


class Files:
    """`cloche files …` in this process: the same command line, without the time that a new interpreter takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, written: pytest.CaptureFixture[bytes]) -> None:
        self._monkeypatch = monkeypatch
        self._written = written
        with warnings.catch_warnings():
            # typer still uses what click is going to remove.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._main = importlib.import_module("services.cli.main").main

    def __call__(self, verb: str, *arguments: str | bytes, stdin: bytes = b"") -> Said:
        argv = ["cloche", "files", verb, *map(os.fsdecode, arguments)]
        self._monkeypatch.setattr(sys, "argv", argv)
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._written.readouterr()
        with pytest.raises(SystemExit) as ended:
            self._main()
        sys.stdout.flush()
        said = self._written.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)


@pytest.fixture
def files(cloche: Shell, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Files]:
    for name, value in cloche.env.items():
        monkeypatch.setenv(name, value)
    handler = signal.getsignal(signal.SIGTERM)
    yield Files(monkeypatch, capfdbinary)
    signal.signal(signal.SIGTERM, handler)


def test_files_are_written_shown_edited_found_and_removed(cloche: Shell, files: Files) -> None:
    assert (
        cloche("files", "write", "sb", "src/a.py", stdin=b"one\ntwo\nthree\n").out == b"/workspace/src/a.py: 14 bytes\n"
    )
    shown = files("read", "sb", "src/a.py", "--offset", "2", "--limit", "1", "-n")
    assert shown.out == b"     2  two\n"
    assert b"--offset 3" in shown.err
    assert files("read", "sb", "src/a.py", "--offset", "9") == (0, b"", b"cloche: it has only 3 lines\n")
    assert files("edit", "sb", "src/a.py", "two", "2").out == b"/workspace/src/a.py:2: 1 replaced\n"
    line = rb"-rw-r--r--           12 \d{4}-\d\d-\d\d \d\d:\d\d:\d\d /workspace/src/a.py\n"
    assert re.fullmatch(line, files("ls", "sb", "src").out)
    assert re.fullmatch(line, files("ls", "sb", "src/a.py").out)
    assert files("glob", "sb", "**/*.py").out == b"/workspace/src/a.py\n"
    assert files("grep", "sb", "^t.*e", "-C", "1").out == (b"/workspace/src/a.py-2-2\n/workspace/src/a.py:3:three\n")
    assert files("grep", "sb", "nowhere").code == 1
    assert b"--limit" in files("grep", "sb", ".", "--limit", "1").err
    entry = json.loads(files("stat", "sb", "src/a.py", "--json").out)
    assert (entry["kind"], entry["size"], entry["mode"]) == ("file", 12, 0o644)
    assert files("mv", "sb", "src/a.py", "b").out == b"/workspace/b\n"
    assert files("mkdir", "sb", "x/y").code == 0
    assert files("mv", "sb", "b", "x/y").out == b"/workspace/x/y/b\n"
    assert files("rm", "-r", "sb", "x", "src").out == b"/workspace/x: 3 removed\n/workspace/src: 1 removed\n"
    tools = cloche("events", "sb", "--type", "tool", "--json").out.splitlines()
    assert len(tools) == 2 * 19


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("read", "sb", "src/a.py"), b"/workspace/src/a.py: no such file or directory"),
        (("read", "sb", "../x"), b"'../x': `..` is refused"),
        (("read", "sb", ""), b"a path is not empty and has no NUL"),
        (("read", "none", "x"), b"there is no sandbox 'none'"),
        (("read", "sb", "full"), b"/workspace/full: it is a directory"),
        (("rm", "sb", "full"), b"the directory is not empty"),
        (("mv", "sb", "full/a", "full/b"), b"/workspace/full/b: it is there already"),
        (("write", "sb", "x", "x", "--mode", "7777"), b"--mode '7777' is not three octal digits: try 644 or 755"),
        (("write", "sb", "large"), b"2000000 bytes, 900000 characters at most at once: use `put`"),
        (("edit", "sb", "full/a", "a", "a"), b"the old and the new text are the same"),
        (("grep", "sb", "HE("), b"'HE(' is not a pattern: missing ): HE("),
        (("glob", "sb", "[z-a]"), b"'[z-a]' is not a pattern: "),
        (("put", "sb", "/dev/zero", "x"), b"/dev/zero: neither a file nor a directory"),
        (("get", "sb", "full/a", "/nowhere/x"), b"/nowhere/x: no such file or directory"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_wrong(files: Files, arguments: tuple[str, ...], said: bytes) -> None:
    answer = files(*arguments, stdin=b"x" * 2_000_000)
    assert answer.code != 0
    assert answer.out == b""
    assert answer.err.startswith(b"cloche: ")
    assert said in answer.err
    assert answer.err.count(b"\n") == 1
    assert b"/workspace: " not in answer.err


def test_a_name_that_is_not_text_is_a_name_for_every_verb(cloche: Shell, files: Files, tmp_path: Path) -> None:
    odd, there = b"odd\xff/n\xfe", b"/workspace/odd\xff/n\xfe"
    written = subprocess.run(
        [*map(os.fsencode, cloche.argv("files", "write", "sb")), odd, b"one"],
        env=cloche.env,
        capture_output=True,
        check=False,
    )
    assert written.stdout == b"/workspace/odd\\xff/n\\xfe: 3 bytes\n", written.stderr
    assert files("write", "sb", odd, "--append", stdin=b"\ntwo\n").code == 0
    assert files("edit", "sb", odd, "two", "2").code == 0
    assert files("read", "sb", there).out == files("cat", "sb", odd).out == b"one\n2\n"
    (listed,) = files("ls", "sb", b"odd\xff", "--json").out.splitlines()
    assert base64.b64decode(json.loads(listed)["path_bytes"]) == there
    assert b"n\\xfe" in files("tree", "sb", b"odd\xff").out
    assert b"n\\xfe" in files("diff", "sb", odd).out
    assert files("glob", "sb", "*", b"odd\xff").out == b"/workspace/odd\\xff/n\\xfe\n"
    assert files("grep", "sb", "2", odd).out == b"/workspace/odd\\xff/n\\xfe:2:2\n"
    assert files("stat", "sb", odd).code == files("mkdir", "sb", b"\xfd").code == 0
    assert files("mv", "sb", odd, b"\xfd").out == b"/workspace/\\xfd/n\\xfe\n"
    assert files("get", "sb", b"\xfd/n\xfe", str(tmp_path)).code == 0
    local = os.fsencode(tmp_path) + b"/n\xfe"
    assert Path(os.fsdecode(local)).read_bytes() == b"one\n2\n"
    assert files("put", "sb", local, b"\xfd/\xfc").out == b"/workspace/\\xfd/\\xfc: 1 file, 6 bytes\n"
    assert files("rm", "sb", "-r", b"\xfd", b"odd\xff").out.endswith(b"/workspace/odd\\xff: 1 removed\n")


def test_a_tree_is_put_and_got(cloche: Shell, tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "bin").mkdir(parents=True)
    (top / "bin/run").write_bytes(os.urandom(1_000_000))
    (top / "bin/run").chmod(0o755)
    assert (
        cloche("files", "put", "sb", str(top), "--transfer", "a-tree").out
        == b"/workspace/tree: 1 file, 1000000 bytes\n"
    )
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
