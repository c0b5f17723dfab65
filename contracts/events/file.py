"""Facts about files in a workspace, written by the file watcher. Paths are as the sandbox sees them."""

from enum import StrEnum

from msgspec import Struct

from contracts.errors import Failure
from contracts.message import Fact


class Action(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    MOVED = "moved"


class FileFacts(Struct, frozen=True, kw_only=True):
    size: int
    mode: int
    sha256: str | None = None
    """Absent for a symlink, and for a file that could not be read."""
    symlink: str | None = None
    blob: str | None = None
    """sha256 of the blob that holds the content, where it is kept."""
    diff: str | None = None
    """Unified diff against the last known content, for small text."""


class FileChange(Struct, frozen=True, kw_only=True):
    action: Action
    path: str
    moved_from: str | None = None
    facts: FileFacts | None = None


class FileCreated(Fact, frozen=True, kw_only=True):
    path: str
    facts: FileFacts


class FileModified(Fact, frozen=True, kw_only=True):
    path: str
    facts: FileFacts


class FileDeleted(Fact, frozen=True, kw_only=True):
    path: str


class FileMoved(Fact, frozen=True, kw_only=True):
    path: str
    moved_from: str
    facts: FileFacts | None = None


class FileBatch(Fact, frozen=True, kw_only=True):
    """A burst in one event."""

    changes: tuple[FileChange, ...]


class FileReady(Fact, frozen=True, kw_only=True):
    files: int
    manifest: str | None = None


class FileOverflow(Fact, frozen=True, kw_only=True):
    """The kernel dropped notices: a rescan follows."""

    reason: str


class FileError(Fact, frozen=True, kw_only=True):
    path: str
    failure: Failure
