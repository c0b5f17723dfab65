"""Real repositories of the host, and workspaces made from them."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec

from contracts.spec import GitWorktree, SandboxSpec
from infra.worktree.checkout import fill
from infra.worktree.worktree import Worktree, worktree_of

BRANCH = "agent/a/t"
LIMIT = 1 << 30
SANDBOX_UID = 234_567
ENV = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_OPTIONAL_LOCKS": "0",
} | {f"GIT_{role}_{what}": "tester@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(where: Path, *arguments: str, stdin: bytes = b"", **env: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=where, env=ENV | env, input=stdin, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.decode("utf-8", "replace").strip()


def a_repository(path: Path, files: dict[str, str] | None = None) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    for name, text in (files or {"a.txt": "one\n", "dir/b.txt": "b\n", ".gitignore": "*.ignored\n"}).items():
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_text(text)
    commit_all(path, "first")
    return path


def commit_all(path: Path, message: str) -> str:
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(path, "rev-parse", "HEAD")


def belongings(repository: Path) -> dict[str, str]:
    """All of a repository that a sandbox might leave something in."""
    return {
        "refs": git(repository, "for-each-ref"),
        "worktrees": git(repository, "worktree", "list"),
        "config": git(repository, "config", "--local", "--list"),
        "status": git(repository, "status", "--porcelain"),
        "objects": git(repository, "count-objects", "-v"),
        "files": "\n".join(sorted(str(each.relative_to(repository)) for each in (repository / ".git").glob("*"))),
    }


class Made(NamedTuple):
    repository: Path
    path: Path
    """Of the workspace."""
    base: str
    worktree: Worktree

    def write(self, name: str, content: bytes | str, *, mode: int = 0o644) -> Path:
        """As the sandbox would."""
        path = self.path / name
        for parent in reversed(path.relative_to(self.path).parents):
            (self.path / parent).mkdir(exist_ok=True)
            own(self.path / parent)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return own(path)

    def link(self, name: str, target: Path | str) -> None:
        (self.path / name).symlink_to(target)
        own(self.path / name)

    def inside(self, *arguments: str, stdin: bytes = b"") -> str:
        """Git as the agent runs it."""
        done = git(self.path, *arguments, stdin=stdin)
        for parent, directories, files in os.walk(self.path):
            for name in (*directories, *files):
                own(Path(parent, name))
        return done

    def diff(self, *, stat: bool = False, most: int = 1 << 20) -> str:
        return self.worktree.diff(stat=stat, most_bytes=most).out.decode("utf-8", "replace")


def own(path: Path) -> Path:
    if os.geteuid() == 0:
        os.chown(path, SANDBOX_UID, SANDBOX_UID, follow_symlinks=False)
    return path


def a_worktree(tmp_path: Path, repository: Path | None = None, *, branch: str = BRANCH) -> Made:
    """A workspace filled from a repository, owned by a user of its own where we are root."""
    repository = repository or a_repository(tmp_path / "source")
    path = tmp_path / "sandbox" / "workspace"
    path.mkdir(parents=True, mode=0o700)
    source = GitWorktree(repository=str(repository), branch=branch)
    base = fill(source, path, SANDBOX_UID if os.geteuid() == 0 else None, branch, LIMIT)
    return Made(repository, path, base, worktree_of(spec_of(repository, base, branch), "sb-1", path))


def spec_of(repository: Path, ref: str = "HEAD", branch: str | None = None, **given: object) -> SandboxSpec:
    source = {"kind": "git", "repository": str(repository), "ref": ref, "branch": branch}
    return msgspec.convert({"isolation": "local", "workspace": {"source": source}, **given}, SandboxSpec)
