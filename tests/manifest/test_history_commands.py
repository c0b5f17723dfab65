"""`files ls --at`, `cat`, `tree`, `diff` and `gc` from the command line, on one node."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.shell import Said, Shell, up_in

MAKE = r"mkdir -p src; printf 'one\ntwo\n' > src/a.txt; printf 'x' > gone; printf '\000\377' > raw; ln -s raw link"
CHANGE = "printf 'one\\n2\\n' > src/a.txt; rm gone; touch \"$(printf 'evil\\033[2J')\""


class Box:
    """A sandbox whose files were flushed at two moments."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.first = self._after(MAKE)
        self.second = self._after(CHANGE)

    def _after(self, script: str) -> str:
        assert self.shell("exec", "box", "--", "sh", "-c", script).code == 0
        assert self.shell("snapshot", "box").code == 0
        events = self.shell("events", "box", "--json", "--type", "sandbox.snapshotted").out.splitlines()
        return str(json.loads(events[-1])["sequence"])

    def files(self, *arguments: str) -> Said:
        return self.shell("files", *arguments)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with up_in(tmp_path_factory.mktemp("node"), DOCKER_HOST="unix:///nobody/listens.sock") as shell:
        assert shell("create", "--id", "box").code == 0
        yield Box(shell)


def test_ls_shows_a_directory_as_it_was(box: Box) -> None:
    said = box.files("ls", "box", "--at", box.first, "--json")
    assert said.code == 0, said.err
    entries = {entry["path"]: entry for entry in map(json.loads, said.out.splitlines())}
    assert sorted(entries) == ["gone", "link", "raw", "src"]
    assert (entries["link"]["symlink"], entries["raw"]["size"]) == ("raw", 2)
    beneath = box.files("ls", "box", "-r", "--at", box.second).out.decode()
    assert "src/a.txt" in beneath
    assert "gone" not in beneath
    assert "\x1b" not in beneath
    assert "evil\\x1b[2J" in beneath


def test_cat_gives_the_bytes_of_then_and_of_now(box: Box) -> None:
    assert box.files("cat", "box", "src/a.txt", "--at", box.first).out == b"one\ntwo\n"
    assert box.files("cat", "box", "/workspace/src/a.txt").out == b"one\n2\n"
    assert box.files("cat", "box", "raw", "--at", box.second).out == b"\x00\xff"
    for path, words in (("gone", b"was not there"), ("src", b"was a directory")):
        said = box.files("cat", "box", path, "--at", box.second)
        assert said.code == 2
        assert words in said.err


def test_now_means_what_was_written_a_moment_ago(box: Box) -> None:
    box.shell("exec", "box", "--", "sh", "-c", "echo fresh > fresh")
    assert box.files("cat", "box", "fresh").out == b"fresh\n"


def test_tree_draws_everything_beneath(box: Box) -> None:
    out = box.files("tree", "box", "--at", box.first).out.decode()
    assert out.startswith("/workspace\n├── gone\n├── link -> raw\n├── raw\n└── src/\n    └── a.txt\n5 entries")
    assert box.files("tree", "box", "src", "--at", box.first).out.decode().startswith("src\n└── a.txt\n1 entries")


def test_diff_tells_what_became_different_with_its_lines(box: Box) -> None:
    out = box.files("diff", "box", "--at", box.first, "--to", box.second).out.decode()
    assert "deleted gone\n" in out
    assert "created evil" in out
    assert "modified src/a.txt\n" in out
    assert "-two\n+2\n" in out
    names = box.files("diff", "box", "src", "--at", box.first, "--to", box.second, "--names").out
    assert names == b"modified src/a.txt\n"
    whole = box.files("diff", "box", "--to", box.first, "--names").out.decode()
    assert "created src/a.txt" in whole


def test_a_moment_that_is_not_on_record_is_said_in_one_line(box: Box) -> None:
    for arguments, words in ((("--at", "1"), b"on record"), (("--at", "99999999"), b"the log ends")):
        said = box.files("tree", "box", *arguments)
        assert said.code == 2
        assert words in said.err
        assert said.err.count(b"\n") == 1


def test_the_past_outlives_the_sandbox_and_the_collection_of_garbage(box: Box) -> None:
    assert box.shell("rm", "box").code == 0
    swept = box.shell("gc")
    assert swept.out.startswith(b"removed 0 blobs"), swept
    assert box.files("cat", "box", "gone", "--at", box.first).out == b"x"
    assert "a.txt" in box.files("tree", "box").out.decode()
