"""The branch comes home: forwards only, it alone, and nothing else changes."""

from pathlib import Path

import pytest

from contracts.errors import Conflict, Invalid
from tests.worktree.repositories import BRANCH, a_repository, a_worktree, belongings, commit_all, git


def test_a_diff_shows_tracked_and_untracked_but_not_ignored_changes(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    assert (made.diff(), made.diff(stat=True)) == ("", "")
    made.write("a.txt", "two\n")
    made.write("new.txt", "new\n")
    made.write("x.ignored", "ignored\n")
    (made.path / "dir" / "b.txt").unlink()
    shown = made.diff()
    assert "-one\n+two\n" in shown
    assert "+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n" in shown
    assert "deleted file mode 100644" in shown
    assert "ignored" not in shown
    assert made.diff(stat=True).splitlines()[-1] == " 3 files changed, 2 insertions(+), 2 deletions(-)"


def test_a_diff_is_against_where_it_began_whatever_was_committed_or_staged_since(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.write("a.txt", "two\n")
    made.inside("commit", "--quiet", "--all", "-m", "mine")
    made.write("new.txt", "new\n")
    made.inside("add", "new.txt")
    assert made.diff(stat=True).splitlines()[-1] == " 2 files changed, 2 insertions(+), 1 deletion(-)"
    assert git(made.path, "status", "--porcelain") == "A  new.txt"


def test_a_commit_takes_everything_and_the_workspace_is_clean_after_it(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.write("a.txt", "two\n")
    made.write("new.txt", "new\n")
    commit = made.worktree.commit("a message\n\nwith 'quotes' and $HOME\n")
    assert commit == git(made.path, "rev-parse", "HEAD")
    assert git(made.path, "status", "--porcelain") == ""
    assert git(made.path, "log", "-1", "--format=%an %B") == "agent a message\n\nwith 'quotes' and $HOME"
    assert made.worktree.commit("again") is None


def test_the_branch_alone_comes_into_the_repository(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    before = belongings(made.repository)
    made.write("a.txt", "two\n")
    made.inside("commit", "--quiet", "--all", "-m", "by the agent")
    made.inside("tag", "theirs")
    made.inside("branch", "other")
    made.write("b.txt", "b\n")
    commit = made.worktree.commit("by cloche")
    assert made.worktree.bring() == commit == git(made.repository, "rev-parse", BRANCH)
    assert git(made.repository, "log", "--format=%s", BRANCH).splitlines() == ["by cloche", "by the agent", "first"]
    after = belongings(made.repository)
    assert after["refs"] == f"{commit} commit\trefs/heads/{BRANCH}\n{before['refs']}"
    for unchanged in ("worktrees", "config", "status", "files"):
        assert after[unchanged] == before[unchanged]
    assert made.worktree.bring() == commit
    assert belongings(made.repository) == after


def test_without_commits_nothing_comes_at_all(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    before = belongings(made.repository)
    made.write("a.txt", "two\n")
    assert made.worktree.bring() is None
    assert belongings(made.repository) == before


def test_more_commits_follow_as_fast_forward(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    for number in range(3):
        made.write("a.txt", f"{number}\n")
        assert made.worktree.commit(f"number {number}") == made.worktree.bring()
    assert git(made.repository, "rev-list", "--count", BRANCH) == "4"


def test_a_branch_with_other_commits_is_a_conflict_and_stays(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    git(made.repository, "checkout", "--quiet", "-b", BRANCH)
    theirs = commit_all(made.repository, "somebody else's")
    git(made.repository, "checkout", "--quiet", "main")
    made.write("a.txt", "two\n")
    made.worktree.commit("mine")
    with pytest.raises(Conflict, match="has commits that the workspace lacks"):
        made.worktree.bring()
    assert git(made.repository, "rev-parse", BRANCH) == theirs


def test_a_branch_that_is_checked_out_is_a_conflict(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    git(made.repository, "checkout", "--quiet", "-b", BRANCH)
    made.write("a.txt", "two\n")
    made.worktree.commit("mine")
    with pytest.raises(Conflict, match="checked out"):
        made.worktree.bring()
    assert (git(made.repository, "status", "--porcelain"), git(made.repository, "rev-parse", BRANCH)) == ("", made.base)


def test_hooks_of_the_repository_do_not_run(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    hook = made.repository / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch /repository/ran\nexit 1\n")
    hook.chmod(0o755)
    made.write("a.txt", "two\n")
    assert made.worktree.commit("mine") == made.worktree.bring()
    assert not (made.repository / "ran").exists()


def test_a_repository_that_went_away_is_told(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.repository.rename(tmp_path / "moved")
    made.write("a.txt", "two\n")
    assert made.worktree.commit("mine")
    with pytest.raises(Invalid, match="does not exist"):
        made.worktree.bring()


def test_many_files_come_too(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source", {f"d{n % 7}/{n}.txt": f"{n}\n" * 50 for n in range(300)})
    made = a_worktree(tmp_path, repository)
    for number in range(250):
        made.write(f"new/{number}.txt", f"{number}\n")
    assert made.worktree.commit("many") == made.worktree.bring()
    assert len(git(repository, "ls-tree", "-r", "--name-only", BRANCH).splitlines()) == 550


def test_a_repository_of_the_newer_hash_works_alike(tmp_path: Path) -> None:
    repository = tmp_path / "source"
    repository.mkdir()
    git(repository, "init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    commit_all(repository, "first")
    made = a_worktree(tmp_path, repository)
    assert len(made.base) == 64
    made.write("a.txt", "two\n")
    assert made.worktree.commit("mine") == made.worktree.bring()
