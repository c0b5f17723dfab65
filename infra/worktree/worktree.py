"""A sandbox's branch: in its workspace, and on the way back to the repository that it came from."""

import os
import re
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from contracts.errors import Invalid, SandboxInvalidState
from contracts.spec import GitWorktree, SandboxSpec
from infra.worktree.cage import Done, User
from infra.worktree.naming import agent_of, branch_of, is_commit
from infra.worktree.repository import find_repository
from infra.worktree.workspace import Workspace

HEADER_LINES = 1000
LINE_BYTES = 4096
_REFERENCE = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) (.+)\n\Z")


class Worktree(NamedTuple):
    """Every method blocks, for as long as a minute or more: call it in a thread."""

    repository: str
    workspace: Workspace
    limit_bytes: int

    @property
    def branch(self) -> str:
        return self.workspace.branch

    def diff(self, *, stat: bool, most_bytes: int) -> Done:
        """Raises what `Workspace.diff` raises."""
        try:
            objects = find_repository(self.repository).objects
        except Invalid:
            objects = None
        return self.workspace.diff(stat=stat, most_bytes=most_bytes, objects=objects)

    def commit(self, message: str) -> str | None:
        """Raises what `Workspace.commit` raises."""
        return self.workspace.commit(message)

    def bring(self) -> str | None:
        """Bring the branch's commits, whoever made them, into the repository; None when there are none.

        Returns the commit that the branch is at there. Bringing again changes nothing. Raises what
        `Workspace.bundle` and `Repository.receive` raise, and `Invalid` when the repository is gone.
        """
        near = self.workspace.path.parent
        with TemporaryFile(dir=near, buffering=0) as bundle:
            if not self.workspace.bundle(bundle, self.limit_bytes):
                return None
            tip = _skip_header(bundle, f"refs/heads/{self.branch}")
            return find_repository(self.repository).receive(bundle, branch=self.branch, tip=tip, near=near)


def worktree_of(spec: SandboxSpec, sandbox: str, workspace: Path) -> Worktree:
    """Raises `Invalid` for a sandbox whose workspace is not from a git repository."""
    source = spec.workspace.source
    if not isinstance(source, GitWorktree):
        raise Invalid(f"sandbox {sandbox!r} has no git repository: its workspace.source is not of kind git")
    if not is_commit(source.ref):
        raise Invalid(f"sandbox {sandbox!r}: {source.ref!r} is not the id of a commit")
    inside = Workspace(workspace, _owner(workspace), source.ref, branch_of(spec, sandbox), agent_of(spec))
    return Worktree(source.repository, inside, spec.resources.disk_mb << 20)


def _owner(workspace: Path) -> User | None:
    if os.geteuid() != 0:
        return None
    try:
        info = workspace.stat()
    except OSError as error:
        raise SandboxInvalidState(f"the workspace is gone: {error.strerror}") from error
    if info.st_uid == 0:
        # What is in there would be read as root, and nothing in a sandbox ever is root.
        raise SandboxInvalidState("the workspace belongs to root, so git cannot be run on it safely")
    return User(info.st_uid, info.st_gid)


def _skip_header(bundle: IO[bytes], branch: str) -> str:
    """Leaves the unbuffered file at its pack; returns the commit that it says the branch is at.

    It was written in a cage by who knows what, so nothing in it is believed: git checks the pack.
    """
    bundle.seek(0)
    tip = None
    for _ in range(HEADER_LINES):
        line = bundle.readline(LINE_BYTES)
        if line == b"\n":
            break
        reference = _REFERENCE.match(line)
        if reference and reference[2] == branch.encode():
            tip = reference[1].decode()
    if tip is None:
        raise SandboxInvalidState(f"git made no bundle of branch {branch!r}")
    return tip
