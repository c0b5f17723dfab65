"""Filling a workspace from a git repository of the host."""

import os
from pathlib import Path
from tempfile import TemporaryFile

from contracts.errors import Invalid, SandboxCreationFailed
from contracts.spec import GitWorktree
from infra.worktree.cage import MB, Bind, Cage, User
from infra.worktree.git_settings import email_of
from infra.worktree.naming import object_format
from infra.worktree.repository import SLOW_SECONDS, Found, find_repository

INSIDE = "/workspace"

_UNPACK = f"""
set -eu
commit=$1 branch=$2 name=$3 email=$4 format=$5
git init --quiet --template= --object-format="$format" --initial-branch="$branch" {INSIDE}
git index-pack --stdin >/dev/null
git config user.name "$name"
git config user.email "$email"
git update-ref "refs/heads/$branch" "$commit"
exec git reset --quiet --hard
"""


def look(source: GitWorktree, branch: str, limit_bytes: int) -> Found:
    """What `fill` would take. Raises `Invalid` for a repository, ref or branch that it could not."""
    found = find_repository(source.repository).look(source.ref, branch)
    if found.bytes > limit_bytes:
        raise Invalid(
            f"workspace.source: {source.repository} needs about {found.bytes // MB + 1} MB with its history, and "
            f"resources.disk_mb allows {limit_bytes // MB}"
        )
    return found


def fill(
    source: GitWorktree,
    workspace: Path,
    owner_uid: int | None,
    branch: str,
    limit_bytes: int,
    *,
    agent: str = "agent",
) -> str:
    """Make the existing, empty `workspace` a repository of its own, on `branch`, owned by `owner_uid`.

    It holds the whole history of the commit and nothing else: no remote, no hard link, no alternate, no hook. Nothing
    in it points back. `user.name` and `user.email` are the agent's. Submodules are empty directories and files of Git
    LFS stay pointers: what would fetch them is not run. Returns the commit that it begins from.

    Raises `Invalid` for a source that cannot be taken, `SandboxCreationFailed` when copying fails, `Unavailable` where
    no git can be run.
    """
    found = look(source, branch, limit_bytes)
    user = None
    if owner_uid is not None and os.geteuid() == 0:
        user = User(owner_uid, owner_uid)
        os.chown(workspace, *user)
    with TemporaryFile(dir=workspace.parent) as pack:
        find_repository(source.repository).pack(found.commit, pack, limit_bytes)
        pack.seek(0)
        cage = Cage(
            (Bind.of(workspace, INSIDE, writable=True),), user, INSIDE, seconds=SLOW_SECONDS, file_bytes=limit_bytes
        )
        given = (found.commit, branch, agent, email_of(agent), object_format(found.commit))
        done = cage.run(["sh", "-c", _UNPACK, "sh", *given], stdin=pack)
    if done.code != 0:
        raise SandboxCreationFailed(f"git cannot check out {found.commit}: {done.complaint}")
    return found.commit
