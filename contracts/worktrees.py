"""Requests about a sandbox's git worktree on `cloche.rpc.<node>.<sandbox>.git.<verb>`, and their answers."""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.message import Order
from contracts.payload import Encoding

MAX_DIFF_BYTES = 700 * 1024
"""Of a diff in one answer: in base64 it still fits into one message."""


class DiffWorktree(Order, frozen=True, kw_only=True):
    """What differs in the workspace from the commit that it began from, untracked files too, ignored ones not."""

    stat: bool = False
    """A summary by file instead of the lines."""


class CommitWorktree(Order, frozen=True, kw_only=True):
    """Commit everything in the workspace on its branch, and bring the branch into the source repository."""

    message: Annotated[str, Meta(min_length=1, max_length=65_536, pattern=r"^[^\x00]*$(?!\n)")]


class WorktreeDiff(Struct, frozen=True, kw_only=True):
    base: str
    """The commit that the workspace began from."""
    branch: str
    data: str
    encoding: Encoding
    truncated: bool = False
    """There was more; it ends at the end of a line."""


class WorktreeCommit(Struct, frozen=True, kw_only=True):
    commit: str | None
    """The commit that was made; null when there was nothing to commit."""
    branch: str
    repository: str
    brought: str | None
    """The commit that the branch is at in the repository now; null when the branch has no commits of its own."""


REQUESTS: dict[str, type[Order]] = {"diff": DiffWorktree, "commit": CommitWorktree}
ANSWERS: dict[str, type[Struct]] = {"diff": WorktreeDiff, "commit": WorktreeCommit}
