"""Files of a sandbox over HTTP. Paths are relative to the workspace."""

from msgspec import Struct

from contracts.events.file import EntryKind
from contracts.lacking import Lack


class FileInfo(Struct, frozen=True, kw_only=True):
    path: str
    """For people where the name is not UTF-8."""
    path_bytes: str | None = None
    """base64 of such a name: an address spells its bytes with percent signs."""
    kind: EntryKind
    size: int
    mode: int
    mtime_us: int | None = None
    sha256: str | None = None
    """The `ETag` of its content. Absent for what is not a file, or could not be read."""
    symlink: str | None = None
    symlink_bytes: str | None = None
    kept: bool = False
    """Its content is on record, and can be had also when the sandbox is gone."""


class FilePage(Struct, frozen=True, kw_only=True):
    sequence: int
    """The sequence of the log that this holds for. Ask for the next page with `at` of this."""
    workspace: str
    """Where the sandbox sees the tree."""
    entries: tuple[FileInfo, ...]
    next: str | None = None
    """There is more: ask with `after` of this."""
    lacking: tuple[Lack, ...] = ()
    """What the log has lost up to there: a file may be older than it was then."""


class FileStored(Struct, frozen=True, kw_only=True):
    path: str
    size: int
    sha256: str
    created: bool
    sequence: int | None = None
    """From here on the log knows it. Absent = it will, in a moment."""


class FileGone(Struct, frozen=True, kw_only=True):
    path: str
    entries: int
    """How many went."""
    sequence: int | None = None
