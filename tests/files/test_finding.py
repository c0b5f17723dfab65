"""Listing, matching and searching."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import codec
from contracts.errors import Invalid
from contracts.files import FileEntry, GlobFiles, GrepFiles, ListFiles
from infra.files.entries import glob_files, list_files
from infra.files.patterns import PathPattern
from infra.files.searching import MAX_BYTES, WINDOW, grep_files
from infra.files.workspace import Workspace
from tests.files.workspaces import Ground


def a_tree(tmp_path: Path, *paths: str) -> Ground:
    ground = Ground(tmp_path)
    for path in paths:
        (ground.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (ground.workspace / path).write_text(path)
    ground.give()
    return ground


def pages(workspace: Workspace, limit: int, **wanted: object) -> list[FileEntry]:
    found: list[FileEntry] = []
    after: str | None = None
    while True:
        request = (
            GlobFiles(limit=limit, after=after, **wanted)  # type: ignore[arg-type]
            if "pattern" in wanted
            else ListFiles(limit=limit, after=after, **wanted)  # type: ignore[arg-type]
        )
        page = glob_files(workspace, request) if isinstance(request, GlobFiles) else list_files(workspace, request)
        assert len(page.entries) <= limit
        assert page.truncated == (page.next is not None)
        found += page.entries
        if page.next is None:
            return found
        after = page.next


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_of_a_tree_have_everything_once_in_order(tmp_path: Path, limit: int) -> None:
    ground = a_tree(tmp_path, "a/b/c", "a/b/d", "a/e", "a.b", "a-b", "z/y", "k")
    (ground.workspace / "empty").mkdir()
    (ground.workspace / "link").symlink_to("a")
    with ground.open() as workspace:
        found = [entry.path.removeprefix("/workspace/") for entry in pages(workspace, limit, recursive=True)]
        assert found == [
            "a", "a/b", "a/b/c", "a/b/d", "a/e", "a-b", "a.b", "empty", "k", "link", "z", "z/y",
        ]  # fmt: skip
        flat = [entry.path for entry in pages(workspace, limit, path="a/b")]
        assert flat == ["/workspace/a/b/c", "/workspace/a/b/d"]


@settings(max_examples=40, deadline=None)
@given(
    names=st.sets(st.text("ab./é", min_size=1, max_size=8).filter(lambda path: path.strip("/") == path), max_size=12),
    limit=st.integers(1, 5),
)
def test_paging_never_loses_or_repeats(tmp_path_factory: pytest.TempPathFactory, names: set[str], limit: int) -> None:
    ground = Ground(tmp_path_factory.mktemp("tree"))
    for name in names:
        if not {".", "..", ""} & set(name.split("/")):
            try:
                (ground.workspace / name).mkdir(parents=True)
            except FileExistsError:
                continue
    ground.give()
    expected = sorted(
        os.fsencode(path.relative_to(ground.workspace)).split(b"/") for path in ground.workspace.rglob("*")
    )
    with ground.open() as workspace:
        found = [entry.path.removeprefix("/workspace/") for entry in pages(workspace, limit, recursive=True)]
    assert [path.encode().split(b"/") for path in found] == expected


def test_a_name_that_is_not_text_can_be_listed_and_used(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    Path(os.fsdecode(os.fsencode(ground.workspace) + b"/\xff")).write_bytes(b"raw\n")
    ground.give()
    with ground.open() as workspace:
        (entry,) = pages(workspace, 10)
        assert (entry.path, entry.path_bytes is not None) == ("/workspace/\\xff", True)
        found = grep_files(workspace, GrepFiles(path=entry.path, path_bytes=entry.path_bytes, pattern="raw"))
    assert [match.path_bytes for match in found.matches] == [entry.path_bytes]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.pyx"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "srcs/a"]),
        ("src/**/b", ["src/b", "src/a/b", "src/a/a/b"], ["src/ab"]),
        ("?", ["a", "é"], ["ab", "", "a/b"]),
        ("[a-c]x", ["ax"], ["dx", "/x"]),
        ("[!a-c]x", ["dx"], ["ax"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.tsxx"]),
        ("a{b", ["a{b"], ["ab"]),
        ("(a|b)+.$^", ["(a|b)+.$^"], ["a"]),
        ("a\\b", ["a\\b"], ["ab"]),
        ("[", ["["], ["a"]),
        ("**", ["a", "a/b"], []),
    ],
)
def test_patterns_of_paths(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = PathPattern(pattern)
    assert [path for path in matching + other if compiled.matches(path.encode())] == matching


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../b", "[z-a]"])
def test_a_pattern_that_leaves_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        PathPattern(pattern)


def test_grep_tells_lines_with_what_is_around_them(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "a.py").write_bytes(b"one\ntwo two\r\nthree\nfour\n\nTwo")
    (ground.workspace / "b.txt").write_bytes(b"two\n")
    (ground.workspace / "binary").write_bytes(b"two\0two\n")
    (ground.workspace / "bad").write_bytes(b"\xff two \xfe\n")
    (ground.workspace / "out").symlink_to("../outside/secret")
    ground.give()
    with ground.open() as workspace:
        found = grep_files(workspace, GrepFiles(pattern="two", context=1))
        assert [(each.path[11:], each.line, each.text, each.before, each.after) for each in found.matches] == [
            ("a.py", 2, "two two", ("one",), ("three",)),
            ("b.txt", 1, "two", (), ()),
            ("bad", 1, "\\xff two \\xfe", (), ()),
        ]
        assert (found.files_searched, found.binary_skipped, found.truncated) == (4, 1, False)
        assert len(grep_files(workspace, GrepFiles(pattern="TWO", ignore_case=True, files="*.py")).matches) == 2
        assert [each.line for each in grep_files(workspace, GrepFiles(pattern="^$", path="a.py")).matches] == [5]
        assert [each.line for each in grep_files(workspace, GrepFiles(pattern=r"e\sf", path="a.py")).matches] == []
        limited = grep_files(workspace, GrepFiles(pattern="o", limit=2))
        assert (len(limited.matches), limited.truncated, limited.truncated_by) == (2, True, "matches")
        with pytest.raises(Invalid):
            grep_files(workspace, GrepFiles(pattern="("))
        with pytest.raises(Invalid, match="too large"):
            grep_files(workspace, GrepFiles(pattern="(.{1,900}){1}x.{900}é{900}"))


def test_an_answer_has_only_so_many_bytes(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.workspace / "lines").write_bytes((b"x" * 990 + b"\n") * 3000)
    ground.give()
    with ground.open() as workspace:
        found = grep_files(workspace, GrepFiles(pattern="x", context=5, limit=2000))
    assert (found.truncated, found.truncated_by) == (True, "bytes")
    assert 0 < len(codec.encode(found)) < MAX_BYTES + 10_000


def test_a_match_far_into_a_large_file_has_its_line(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    lines = [b"line %d" % number for number in range(2 * WINDOW // 8)]
    lines[-3] = b"needle"
    (ground.workspace / "large").write_bytes(b"\n".join(lines))
    ground.give()
    with ground.open() as workspace:
        found = grep_files(workspace, GrepFiles(pattern="^needle$"))
    assert [each.line for each in found.matches] == [len(lines) - 2]


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(a|a)*b", "(.*)*\\d", "([a-z]+)*[0-9]{30}", "(x?){500}x{500}y"])
def test_no_pattern_takes_for_ever(tmp_path: Path, pattern: str) -> None:
    """In Python's own engine each of these takes longer than anybody lives."""
    ground = Ground(tmp_path)
    (ground.workspace / "file").write_bytes((b"x" * 5000 + b"a" * 5000) * 10)
    ground.give()
    with ground.open() as workspace:
        found = grep_files(workspace, GrepFiles(pattern=pattern, timeout_ms=5000))
    assert found.matches == ()


def test_a_search_ends_when_its_time_is_over(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    with (ground.workspace / "large").open("wb") as file:
        file.write(b"x\n")
        file.truncate(20 << 30)
    for number in range(200):
        (ground.workspace / f"file{number}").write_bytes(b"x" * 100_000)
    ground.give()
    with ground.open() as workspace:
        found = grep_files(workspace, GrepFiles(pattern="(x?){400}y", timeout_ms=10))
    assert (found.truncated, found.truncated_by) == (True, "time")


@settings(max_examples=100, deadline=None)
@given(
    content=st.text(st.sampled_from("ab\n"), max_size=60), pattern=st.sampled_from(["a", "^a", "b$", "^$", "a*", "ab"])
)
def test_grep_finds_the_lines_that_a_search_line_by_line_finds(
    tmp_path_factory: pytest.TempPathFactory, content: str, pattern: str
) -> None:
    ground = Ground(tmp_path_factory.mktemp("grep"))
    (ground.workspace / "file").write_text(content)
    ground.give()
    with ground.open() as workspace:
        found = grep_files(workspace, GrepFiles(pattern=pattern))
    lines = content.removesuffix("\n").split("\n") if content else []
    expected = [(number, line) for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    assert [(each.line, each.text) for each in found.matches] == expected
