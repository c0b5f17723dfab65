"""A workspace becomes a repository of its own, or the reason why not is clear."""

import os
import stat
from pathlib import Path

import pytest

from contracts.errors import Invalid
from contracts.spec import GitWorktree
from infra.worktree.checkout import fill, look
from infra.worktree.naming import branch_of
from tests.conformance.inside import a_sandbox
from tests.worktree.repositories import BRANCH, LIMIT, a_repository, a_worktree, belongings, commit_all, git, spec_of


def test_the_workspace_is_a_repository_that_has_nothing_to_do_with_its_source(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    git(repository, "tag", "v1")
    git(repository, "branch", "other")
    before = belongings(repository)
    made = a_worktree(tmp_path, repository)
    assert git(made.path, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert git(made.path, "for-each-ref", "--format=%(refname)") == f"refs/heads/{BRANCH}"
    assert (git(made.path, "remote"), git(made.path, "status", "--porcelain")) == ("", "")
    assert str(repository) not in (made.path / ".git" / "config").read_text()
    assert not (made.path / ".git" / "objects" / "info" / "alternates").exists()
    assert not (made.path / ".git" / "hooks").exists()
    assert (made.path / "dir" / "b.txt").read_text() == "b\n"
    linked = [path for path in made.path.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert linked == []
    owners = {path.lstat().st_uid for path in (made.path, *made.path.rglob("*"))}
    assert owners == {made.path.stat().st_uid}
    assert belongings(repository) == before


def test_it_holds_the_whole_history_of_the_ref_that_was_asked_for(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v1")
    (repository / "a.txt").write_text("two\n")
    commit_all(repository, "second")
    (tmp_path / "w1").mkdir()
    assert fill(GitWorktree(repository=str(repository), ref="v1"), tmp_path / "w1", None, BRANCH, LIMIT) == first
    assert (tmp_path / "w1" / "a.txt").read_text() == "one\n"
    (tmp_path / "w2").mkdir()
    fill(GitWorktree(repository=str(repository)), tmp_path / "w2", None, BRANCH, LIMIT)
    assert git(tmp_path / "w2", "log", "--format=%s").split() == ["second", "first"]


def test_modes_links_and_odd_names_come_through(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source", {"ünï cödé\n": "x", "-rf": "y", "run": "#!/bin/sh\n"})
    (repository / "run").chmod(0o755)
    (repository / "away").symlink_to("/etc/passwd")
    commit_all(repository, "odd")
    made = a_worktree(tmp_path, repository)
    assert (made.path / "ünï cödé\n").read_text() == "x"
    assert stat.S_IMODE((made.path / "run").stat().st_mode) == 0o755
    assert os.readlink(made.path / "away") == "/etc/passwd"
    assert made.diff() == ""


async def test_inside_a_sandbox_git_works_as_the_agent(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    spec = spec_of(repository, agent_id="ada", task_id="t7", resources={"memory_mb": 512, "disk_mb": 1024})
    async with a_sandbox(tmp_path / "data", spec) as inside:
        done = await inside.sh("echo new > a.txt && git commit -qam 'by the agent' && git log -1 --format='%an %s %D'")
        assert done.out == "ada by the agent HEAD -> agent/ada/t7\n", done.err
        assert (await inside.sh("git diff HEAD~1 --stat && git status --porcelain")).out.count("\n") == 2


def test_a_branch_is_named_for_agent_and_task_unless_named_otherwise() -> None:
    path = Path("/r")
    assert branch_of(spec_of(path), "sb-1") == "agent/agent/sb-1"
    assert branch_of(spec_of(path, agent_id="ada", task_id="t7"), "sb-1") == "agent/ada/t7"
    assert branch_of(spec_of(path, branch="mine", agent_id="ada"), "sb-1") == "mine"


def missing(path: Path) -> None:
    pass


def a_file(path: Path) -> None:
    path.write_text("")


def plain(path: Path) -> None:
    path.mkdir()


def empty_git(path: Path) -> None:
    (path / ".git").mkdir(parents=True)


def bare(path: Path) -> None:
    path.mkdir()
    git(path, "init", "--quiet", "--bare")


def without_commits(path: Path) -> None:
    path.mkdir()
    git(path, "init", "--quiet")


def changed(path: Path) -> None:
    (a_repository(path) / "a.txt").write_text("changed")


def untracked(path: Path) -> None:
    (a_repository(path) / "new.txt").write_text("new")


def linked(path: Path) -> None:
    main = a_repository(path.with_name("main"))
    git(main, "worktree", "add", "--quiet", str(path))


def symlinked(path: Path) -> None:
    main = a_repository(path.with_name("main"))
    path.mkdir()
    (path / ".git").symlink_to(main / ".git")


def borrowing(path: Path) -> None:
    main = a_repository(path.with_name("main"))
    git(main, "clone", "--quiet", "--shared", str(main), str(path))


def shallow(path: Path) -> None:
    main = a_repository(path.with_name("main"))
    commit_all(main, "second")
    git(main, "clone", "--quiet", "--depth=1", f"file://{main}", str(path))


def branch_taken(path: Path) -> None:
    a_repository(path)
    git(path, "checkout", "--quiet", "-b", BRANCH)
    commit_all(path, "own")
    git(path, "checkout", "--quiet", "main")


def branch_above(path: Path) -> None:
    git(a_repository(path), "branch", "agent/a")


def branch_below(path: Path) -> None:
    git(a_repository(path), "branch", f"{BRANCH}/deeper")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (missing, "does not exist"),
        (a_file, "not a directory"),
        (plain, "not the top of a git repository"),
        (empty_git, "is not a git repository, or is damaged"),
        (bare, "bare repository"),
        (without_commits, "'HEAD' names no commit"),
        (changed, r"1 uncommitted changes \(first ' M a.txt'\).*commit or stash them"),
        (untracked, r"1 uncommitted changes \(first '\?\? new.txt'\)"),
        (linked, "linked worktree or submodule"),
        (symlinked, "points elsewhere"),
        (borrowing, "borrows objects"),
        (shallow, "shallow clone: run `git fetch --unshallow`"),
        (branch_taken, "already has a branch 'agent/a/t' with commits of its own"),
        (branch_above, "cannot stand beside"),
        (branch_below, "cannot stand beside"),
    ],
)
def test_what_cannot_be_a_source_is_refused_in_clear_words(tmp_path: Path, make: object, words: str) -> None:
    assert callable(make)
    make(tmp_path / "source")
    with pytest.raises(Invalid, match=words):
        look(GitWorktree(repository=str(tmp_path / "source")), BRANCH, LIMIT)


@pytest.mark.parametrize("ref", ["nothing", "--all", "-x", "main:a.txt", "HEAD^{tree}", "main..main", "0" * 40, "a b"])
def test_a_ref_that_is_no_commit_is_refused(tmp_path: Path, ref: str) -> None:
    repository = a_repository(tmp_path / "source")
    with pytest.raises(Invalid, match="names no commit"):
        look(GitWorktree(repository=str(repository), ref=ref), BRANCH, LIMIT)


@pytest.mark.parametrize("branch", ["-x", "a..b", "a b", "@{-1}", "a/", "x.lock", "HEAD", "a\nb"])
def test_a_branch_that_no_branch_can_be_called_is_refused(tmp_path: Path, branch: str) -> None:
    repository = a_repository(tmp_path / "source")
    with pytest.raises(Invalid, match="cannot be the name of a branch"):
        look(GitWorktree(repository=str(repository)), branch, LIMIT)


def test_a_repository_that_is_too_large_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source", {"large": "0123456789abcdef" * 200_000})
    assert look(GitWorktree(repository=str(repository)), BRANCH, 4_000_000).bytes > 3_200_000
    with pytest.raises(Invalid, match=r"needs about 4 MB with its history, and resources\.disk_mb allows 2"):
        look(GitWorktree(repository=str(repository)), BRANCH, 2 << 20)


def test_a_whole_commit_id_means_that_commit_whatever_else_is_changed(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "a.txt").write_text("changed")
    assert look(GitWorktree(repository=str(repository), ref=commit), BRANCH, LIMIT).commit == commit


def test_a_branch_that_the_commit_already_contains_is_not_in_the_way(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    git(repository, "branch", BRANCH)
    commit = commit_all(repository, "second")
    assert look(GitWorktree(repository=str(repository)), BRANCH, LIMIT).commit == commit


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_repository_of_somebody_else_is_read_and_its_programs_have_no_rights_of_ours(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    program = repository / ".git" / "evil"
    program.write_text(f"#!/bin/sh\nid -u > {tmp_path}/ran; touch /repository/ran\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    git(repository, "config", "filter.x.process", "/repository/.git/evil")
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 65_534, 65_534, follow_symlinks=False)
    made = a_worktree(tmp_path, repository)
    made.write("a.txt", "two\n")
    assert made.worktree.commit("m") == made.worktree.bring() == git(repository, "rev-parse", BRANCH)
    assert not (tmp_path / "ran").exists()
    assert not (repository / "ran").exists()
    assert {path.lstat().st_uid for path in repository.rglob("*")} == {65_534}


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_repository_is_told_so(tmp_path: Path) -> None:
    repository = a_repository(tmp_path / "source")
    (repository / ".git" / "objects").chmod(0o000)
    try:
        with pytest.raises(Invalid, match=r"cannot be read|damaged|names no commit"):
            look(GitWorktree(repository=str(repository)), BRANCH, LIMIT)
    finally:
        (repository / ".git" / "objects").chmod(0o755)
