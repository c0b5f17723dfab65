"""Facts about files in a workspace, written by the file watcher. Paths are as the sandbox sees them.

Every entry is told by itself: a directory that is moved or deleted implies nothing about what was in it.

A name need not be UTF-8. Where it is not, `path` is a spelling for people, with `\\xNN` for each byte that is no text,
and the field beside it that ends in `_bytes` is the whole of it in base64. Where that is null the text is the name.
"""

from enum import StrEnum

from msgspec import Struct

from contracts.errors import Failure
from contracts.message import Fact


class Action(StrEnum):
    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
    MOVED = "moved"


class EntryKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"
    """A FIFO, a socket, a device: told, never restored."""


class FileFacts(Struct, frozen=True, kw_only=True):
    size: int
    """0 unless it is a file."""
    mode: int
    """Permission bits alone, with setuid, setgid and sticky."""
    sha256: str | None = None
    """Absent for what is not a file, and for a file that could not be read or is larger than what is kept."""
    symlink: str | None = None
    blob: str | None = None
    """sha256 of the blob that holds the content, where it is kept."""
    diff: str | None = None
    """Unified diff against the last known content, for small text."""
    kind: EntryKind = EntryKind.FILE
    mtime_us: int | None = None
    """Microseconds since 1970. Absent for a directory, whose time is that of its last entry."""
    symlink_bytes: str | None = None


class FileChange(Struct, frozen=True, kw_only=True):
    action: Action
    path: str
    moved_from: str | None = None
    facts: FileFacts | None = None
    path_bytes: str | None = None
    moved_from_bytes: str | None = None


class FileCreated(Fact, frozen=True, kw_only=True):
    path: str
    facts: FileFacts
    path_bytes: str | None = None


class FileModified(Fact, frozen=True, kw_only=True):
    path: str
    facts: FileFacts
    path_bytes: str | None = None


class FileDeleted(Fact, frozen=True, kw_only=True):
    path: str
    path_bytes: str | None = None


class FileMoved(Fact, frozen=True, kw_only=True):
    path: str
    moved_from: str
    facts: FileFacts | None = None
    """Absent = as before."""
    path_bytes: str | None = None
    moved_from_bytes: str | None = None


class FileBatch(Fact, frozen=True, kw_only=True):
    """A burst in one event. Its changes hold in their order."""

    changes: tuple[FileChange, ...]


class FileReady(Fact, frozen=True, kw_only=True):
    """From here on every change is told. `manifest` is the whole tree at this sequence."""

    files: int
    manifest: str | None = None


class FileManifest(Fact, frozen=True, kw_only=True):
    """The whole tree at this sequence, so that readers need not go back further."""

    manifest: str
    """sha256 of the blob that holds it, see `contracts/manifest.py`."""
    files: int
    """Entries of every kind."""
    bytes: int
    """Of the contents of all files."""


class FileOverflow(Fact, frozen=True, kw_only=True):
    """The kernel dropped notices: a rescan follows."""

    reason: str


class FileError(Fact, frozen=True, kw_only=True):
    path: str
    failure: Failure
    path_bytes: str | None = None
