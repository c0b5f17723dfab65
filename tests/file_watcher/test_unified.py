"""Diffs that `git apply` takes, in bounded time."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.watching.unified import MOST_LINES, edits_between, unified

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "\x0c\n", "end\r\n"]), max_size=40)
Factory = pytest.TempPathFactory
TEXT = st.builds(lambda lines, last: "".join(lines) + last, LINES, st.sampled_from(["", "tail", "a"]))


@given(old=LINES, new=LINES)
def test_edits_turn_the_old_lines_into_the_new(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for edit in edits_between(old, new):
        made += old[at : edit.old_from] + new[edit.new_from : edit.new_to]
        at = edit.old_to
    assert made + old[at:] == new


@settings(deadline=None, max_examples=60)
@given(old=TEXT, new=TEXT)
def test_git_applies_a_diff_and_makes_the_new_text(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str
) -> None:
    place: Path = tmp_path_factory.mktemp("patch")
    (place / "f").write_bytes(old.encode())
    diff = unified(old, new, "f")
    assert diff is not None
    assert bool(diff) == (old != new)
    if diff:
        subprocess.run(["git", "apply", "--whitespace=nowarn"], input=diff.encode(), check=True, cwd=place)
    assert (place / "f").read_bytes() == new.encode()


def test_a_small_change_is_a_small_diff() -> None:
    old = "".join(f"line {number}\n" for number in range(1000))
    diff = unified(old, old.replace("line 500\n", "line five hundred\n"), "/workspace/a.txt")
    assert diff == (
        "--- a/workspace/a.txt\n+++ b/workspace/a.txt\n@@ -498,7 +498,7 @@\n line 497\n line 498\n line 499\n"
        "-line 500\n+line five hundred\n line 501\n line 502\n line 503\n"
    )


def test_texts_without_a_common_line_are_one_edit() -> None:
    old, new = [f"a{number}\n" for number in range(4000)], [f"b{number}\n" for number in range(4000)]
    assert edits_between(old, new) == [(0, 4000, 0, 4000)]


def test_too_many_lines_have_no_diff() -> None:
    assert unified("\n" * (MOST_LINES + 1), "x", "f") is None


def test_a_name_with_a_line_break_cannot_forge_a_line_of_the_diff() -> None:
    diff = unified("a\n", "b\n", "x\n+++ b/etc/passwd")
    assert diff is not None
    assert diff.splitlines()[1] == "+++ b/x\\n+++ b/etc/passwd"
