"""A workspace is hostile once a sandbox has run: nothing in it runs on the host, nothing of the host gets into it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import SandboxInvalidState
from tests.worktree.repositories import BRANCH, Made, a_repository, a_worktree, belongings, commit_all, git, own

SECRET = "hunter2-from-the-host"
HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-checkout", "post-commit", "post-index-change",
    "post-merge", "post-update", "pre-auto-gc", "pre-commit", "pre-push", "pre-receive", "prepare-commit-msg",
    "proc-receive", "push-to-checkout", "reference-transaction", "update",
)  # fmt: skip


class Attack:
    """A workspace with a change in it, a program that leaves a mark when it is run, and a host worth robbing."""

    def __init__(self, tmp_path: Path) -> None:
        self.marks = tmp_path / "marks"
        self.marks.mkdir()
        self.marks.chmod(0o777)
        self.victim = a_repository(tmp_path / "victim", {"secret.txt": SECRET})
        self.made = a_worktree(tmp_path)
        self.made.write("a.txt", "two\n")
        script = f"#!/bin/sh\ntouch {self.marks}/ran /workspace/ran /workspace/.git/ran\ncat\n"
        self.made.write(".git/evil", script, mode=0o755)
        self.program = "/workspace/.git/evil"
        self.on_host = str(self.made.path / ".git" / "evil")
        self.before = belongings(self.victim)

    def configure(self, text: str) -> None:
        config = self.made.path / ".git" / "config"
        self.made.write(".git/config", config.read_text() + text)

    def ran(self) -> bool:
        places = (self.marks / "ran", self.made.path / "ran", self.made.path / ".git" / "ran", self.victim / "ran")
        return any(place.exists() for place in places)


def hooks(attack: Attack) -> None:
    for name in HOOKS:
        attack.made.write(f".git/hooks/{name}", Path(attack.on_host).read_text(), mode=0o755)


def hooks_path(attack: Attack) -> None:
    hooks(attack)
    attack.configure("[core]\n\thooksPath = /workspace/.git/hooks\n")


def fsmonitor(attack: Attack) -> None:
    attack.configure(f"[core]\n\tfsmonitor = {attack.program}\n")


def programs(attack: Attack) -> None:
    settings = (
        "core.pager", "core.sshCommand", "core.editor", "core.askPass", "core.gitProxy", "core.alternateRefsCommand",
        "sequence.editor", "gpg.program", "gpg.ssh.program", "credential.helper", "diff.external",
        "uploadpack.packObjectsHook", "pager.diff", "pager.log", "interactive.diffFilter",
    )  # fmt: skip
    for name in settings:
        section, _, key = name.rpartition(".")
        head = section.replace(".", ' "') + '"' if "." in section else section
        attack.configure(f"[{head}]\n\t{key} = {attack.program}\n")
    attack.configure("[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n[diff]\n\tsubmodule = diff\n")


def packing(attack: Attack) -> None:
    attack.configure(f"[uploadpack]\n\tpackObjectsHook = {attack.program}\n")
    attack.made.inside("commit", "--quiet", "--all", "-m", "mine")


def filters(attack: Attack) -> None:
    attack.configure(
        f'[filter "x"]\n\tclean = {attack.program}\n\tsmudge = {attack.program}\n\tprocess = {attack.program}\n'
        f'\trequired = true\n[diff "x"]\n\tcommand = {attack.program}\n\ttextconv = {attack.program}\n'
        f'[merge "x"]\n\tdriver = {attack.program}\n'
    )
    attack.made.write(".gitattributes", "* filter=x diff=x merge=x\n")
    attack.made.write(".git/info/attributes", "* filter=x diff=x merge=x\n")


def includes(attack: Attack) -> None:
    attack.configure(f"[include]\n\tpath = {attack.victim}/secret.txt\n\tpath = /workspace/.git/more\n")
    attack.made.write(".git/more", f"[core]\n\tfsmonitor = {attack.program}\n\thooksPath = /workspace/.git/hooks\n")
    hooks(attack)


def work_tree_elsewhere(attack: Attack) -> None:
    attack.configure(f"[core]\n\tworktree = {attack.victim}\n")


def links_to_the_host(attack: Attack) -> None:
    attack.made.link("leak", attack.victim / "secret.txt")
    attack.made.link("leaks", attack.victim)
    attack.made.link(".gitignore.d", "/etc")


def nested_repository(attack: Attack) -> None:
    """A repository in the repository, with programs of its own, and one whose .git is the victim's."""
    nested = a_repository(attack.made.path / "nested", {"x": "x"})
    git(nested, "config", "core.fsmonitor", attack.program)
    git(nested, "config", "core.hooksPath", "/workspace/.git/hooks")
    attack.made.write("pointing/.git", f"gitdir: {attack.victim}/.git\n")
    attack.made.write("pointing/file", "x")
    hooks(attack)
    for path in (nested, *nested.rglob("*")):
        own(path)


def submodule_tricks(attack: Attack) -> None:
    attack.made.write(
        ".gitmodules",
        f'[submodule "../../x"]\n\tpath = .git/hooks\n\turl = ext::{attack.program}\n\tupdate = !{attack.program}\n'
        f'[submodule "y"]\n\tpath = {attack.victim}\n\turl = {attack.victim}\n'
        '[submodule "-x"]\n\tpath = -rf\n\turl = -u\n',
    )
    attack.configure(f'[submodule "y"]\n\tactive = true\n\tupdate = !{attack.program}\n[submodule]\n\trecurse = true\n')


def replaced_commits(attack: Attack) -> None:
    head = attack.made.base
    other = attack.made.inside("commit-tree", "-m", "fake", f"{head}^{{tree}}")
    attack.made.inside("replace", head, other)


STILL_USABLE: tuple[Callable[[Attack], None], ...] = (
    hooks, hooks_path, fsmonitor, programs, packing, filters, includes, work_tree_elsewhere, links_to_the_host,
    replaced_commits,
)  # fmt: skip


@pytest.mark.parametrize("prepare", STILL_USABLE)
def test_it_neither_runs_nor_robs_and_the_work_still_comes_home(
    tmp_path: Path, prepare: Callable[[Attack], None]
) -> None:
    attack = Attack(tmp_path)
    prepare(attack)
    made = attack.made
    shown = made.diff()
    assert "-one\n+two\n" in shown
    assert SECRET not in shown
    assert not attack.ran()
    made.worktree.commit("everything")
    tip = made.worktree.bring()
    assert tip == git(made.repository, "rev-parse", BRANCH)
    assert git(made.repository, "show", f"{BRANCH}:a.txt") == "two"
    assert SECRET not in git(made.repository, "log", "-p", "--all")
    assert not attack.ran()
    assert belongings(attack.victim) == attack.before


def test_submodules_that_git_would_be_tricked_by_are_shown_and_refused(tmp_path: Path) -> None:
    attack = Attack(tmp_path)
    submodule_tricks(attack)
    before = belongings(attack.made.repository)
    assert "+++ b/.gitmodules" in attack.made.diff()
    attack.made.worktree.commit("everything")
    with pytest.raises(SandboxInvalidState, match="disallowed submodule name"):
        attack.made.worktree.bring()
    assert not attack.ran()
    assert belongings(attack.made.repository) == before


def test_nested_repositories_are_mentioned_and_not_entered(tmp_path: Path) -> None:
    attack = Attack(tmp_path)
    nested_repository(attack)
    try:
        shown = attack.made.diff()
        attack.made.worktree.commit("everything")
        attack.made.worktree.bring()
    except SandboxInvalidState as refused:
        shown = refused.message
    assert SECRET not in shown
    assert not attack.ran()
    assert belongings(attack.victim) == attack.before


def move_git_away(made: Made) -> Path:
    git_directory = made.path / ".git"
    git_directory.rename(made.path / ".old")
    return git_directory


def symlinked_git(attack: Attack) -> None:
    move_git_away(attack.made).symlink_to(attack.victim / ".git")


def git_file(attack: Attack) -> None:
    move_git_away(attack.made)
    attack.made.write(".git", f"gitdir: {attack.victim}/.git\n")


def no_git(attack: Attack) -> None:
    move_git_away(attack.made)


def symlinked_objects(attack: Attack) -> None:
    objects = attack.made.path / ".git" / "objects"
    objects.rename(attack.made.path / "objects.old")
    objects.symlink_to(attack.victim / ".git" / "objects")


def common_directory(attack: Attack) -> None:
    move_git_away(attack.made)
    attack.made.write(".git/commondir", f"{attack.victim}/.git\n")
    attack.made.write(".git/HEAD", "ref: refs/heads/main\n")


@pytest.mark.parametrize("prepare", [symlinked_git, git_file, no_git, symlinked_objects, common_directory])
def test_a_repository_that_leads_elsewhere_leads_nowhere(tmp_path: Path, prepare: Callable[[Attack], None]) -> None:
    attack = Attack(tmp_path)
    prepare(attack)
    worktree = attack.made.worktree
    before = belongings(attack.made.repository)
    shown = attack.made.diff()
    assert "-one\n+two\n" in shown
    assert SECRET not in shown
    acts: tuple[Callable[[], object], ...] = (lambda: worktree.commit("m"), worktree.bring)
    for act in acts:
        with pytest.raises(SandboxInvalidState, match="cannot be used") as refused:
            act()
        assert SECRET not in refused.value.message
    assert not attack.ran()
    assert belongings(attack.made.repository) == before
    assert belongings(attack.victim) == attack.before


def test_objects_borrowed_from_the_host_are_not_found(tmp_path: Path) -> None:
    attack = Attack(tmp_path)
    stolen = git(attack.victim, "rev-parse", "HEAD")
    attack.made.write(".git/objects/info/alternates", f"{attack.victim}/.git/objects\n")
    attack.made.write(f".git/refs/heads/{BRANCH}", f"{stolen}\n")
    assert SECRET not in attack.made.diff()
    before = belongings(attack.made.repository)
    acts: tuple[Callable[[], object], ...] = (lambda: attack.made.worktree.commit("m"), attack.made.worktree.bring)
    for act in acts:
        with pytest.raises(SandboxInvalidState):
            act()
    assert belongings(attack.made.repository) == before


def test_a_branch_that_points_out_of_the_repository_is_not_followed(tmp_path: Path) -> None:
    attack = Attack(tmp_path)
    reference = attack.made.path / ".git" / "refs" / "heads" / BRANCH
    reference.unlink()
    reference.symlink_to(attack.victim / ".git" / "refs" / "heads" / "main")
    own(reference)
    with pytest.raises(SandboxInvalidState, match="no branch 'agent/a/t'"):
        attack.made.worktree.commit("m")


def test_a_forged_beginning_hides_no_change(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.write("a.txt", "changed\n")
    made.inside("add", "a.txt")
    changed, true = (made.inside("rev-parse", name) for name in (":a.txt", f"{made.base}:a.txt"))
    objects = made.path / ".git" / "objects"
    for pack in (objects / "pack").glob("*.pack"):
        content = pack.read_bytes()
        for part in (objects / "pack").glob("*"):
            part.unlink()
        made.inside("unpack-objects", "-q", stdin=content)
    forged = objects / true[:2] / true[2:]
    forged.chmod(0o644)
    forged.write_bytes((objects / changed[:2] / changed[2:]).read_bytes())
    assert "+changed" not in made.inside("diff", made.base)
    assert "-one\n+changed\n" in made.diff()


def test_a_diff_needs_the_workspace_s_own_objects_only_where_the_source_is_gone(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.write("a.txt", "two\n")
    made.repository.rename(tmp_path / "moved")
    assert "-one\n+two\n" in made.diff()
    move_git_away(made)
    with pytest.raises(SandboxInvalidState, match="lacks the commit that it began from"):
        made.diff()


def damaged_tree(made: Made) -> str:
    """A tree that would write into .git of whoever checks it out."""
    blob = made.inside("hash-object", "-w", "--stdin", stdin=b"[core]\n\tfsmonitor = evil\n")
    entry = b"100644 .git\0" + bytes.fromhex(blob)
    return made.inside("hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=entry)


def missing_blob(made: Made) -> str:
    made.write("lost.txt", "soon lost")
    made.inside("add", "lost.txt")
    tree = made.inside("write-tree")
    blob = made.inside("rev-parse", f"{tree}:lost.txt")
    made.inside("rm", "--quiet", "--cached", "lost.txt")
    (made.path / "lost.txt").unlink()
    (made.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return tree


def lying_blob(made: Made) -> str:
    """Content under another content's name."""
    made.write("true.txt", "true")
    made.write("lie.txt", "lie!")
    made.inside("add", "true.txt", "lie.txt")
    tree = made.inside("write-tree")
    objects = made.path / ".git" / "objects"
    true, lie = (made.inside("rev-parse", f"{tree}:{name}") for name in ("true.txt", "lie.txt"))
    target = objects / true[:2] / true[2:]
    target.chmod(0o644)
    target.write_bytes((objects / lie[:2] / lie[2:]).read_bytes())
    return tree


@pytest.mark.parametrize("make_tree", [damaged_tree, missing_blob, lying_blob])
def test_unsound_objects_never_reach_the_repository(tmp_path: Path, make_tree: Callable[[Made], str]) -> None:
    made = a_worktree(tmp_path)
    commit = made.inside("commit-tree", "-p", made.base, "-m", "evil", make_tree(made))
    made.inside("update-ref", f"refs/heads/{BRANCH}", commit)
    before = belongings(made.repository)
    with pytest.raises(SandboxInvalidState, match=r"damaged|cannot be used"):
        made.worktree.bring()
    assert belongings(made.repository) == before


def test_a_huge_diff_is_cut(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.write("large.txt", "0123456789\n" * 1_000_000)
    done = made.worktree.diff(stat=False, most_bytes=100_000)
    assert (done.truncated, len(done.out)) == (True, 100_000)


def test_binary_files_and_bytes_that_are_no_text_are_shown_as_git_does(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.write("binary", b"\0\xff" * 10)
    made.write("latin.txt", b"caf\xe9\n")
    shown = made.worktree.diff(stat=False, most_bytes=1 << 20).out
    assert b"Binary files /dev/null and b/binary differ\n" in shown
    assert b"+caf\xe9\n" in shown


def test_sockets_pipes_and_devices_are_passed_over(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    os.mkfifo(made.path / "pipe")
    made.write("a.txt", "two\n")
    assert "pipe" not in made.diff()
    assert made.worktree.commit("m")


def test_commits_of_an_unrelated_history_come_as_they_are(tmp_path: Path) -> None:
    made = a_worktree(tmp_path)
    made.inside("checkout", "--quiet", "--orphan", "fresh")
    made.inside("commit", "--quiet", "-m", "orphan")
    made.inside("branch", "--force", BRANCH)
    assert made.worktree.bring() == git(made.repository, "rev-parse", BRANCH)
    assert commit_all(made.repository, "unhurt")
