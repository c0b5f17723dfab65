"""Requests about a sandbox's files on `cloche.rpc.<node>.<sandbox>.files.<verb>`, and their answers.

A path is relative to the workspace, or absolute as the sandbox sees it (`/workspace/src/a.py`), or begins with `~`,
which is the workspace. `..` is refused. Paths in answers are absolute, as the sandbox sees them. A name need not be
UTF-8: where it is not, `path` is a spelling for people and `path_bytes` is the whole of it in base64; a request may say
it so too.
Moving whole files and trees in and out is in `contracts/transfers.py`.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from contracts.events.file import EntryKind
from contracts.ids import END, Token
from contracts.message import Order
from contracts.payload import Encoding
from contracts.spelling import unspell

MAX_PATH = 16 * 1024
"""Bytes, relative to the workspace. The system takes 4096 at a time; a tree can be deeper."""
MAX_WORKSPACE = 4096
"""Bytes of where the sandbox sees the workspace."""
MAX_READ_BYTES = 512 * 1024
"""Of content in one answer: in base64 it still fits into one message."""
MAX_WRITE_CHARACTERS = 900_000
"""Of content in one request; larger files are uploaded."""
MAX_TEXT_FILE = 64 * 1024 * 1024
"""A text that is read by lines is gone through to its end, to count them."""
MAX_EDITED_FILE = 16 * 1024 * 1024
MAX_ENTRIES = 1000
MAX_MATCHES = 2000
MAX_PATTERN = 1000

Path = Annotated[str, Meta(min_length=1, max_length=MAX_PATH + MAX_WORKSPACE, pattern=r"^[^\x00]*" + END)]
PathBytes = Annotated[str, Meta(min_length=1, max_length=2 * (MAX_PATH + MAX_WORKSPACE))]
Pattern = Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN, pattern=r"^[^\x00\n]*" + END)]
Cursor = Annotated[str, Meta(max_length=2 * MAX_PATH)]
Mode = Annotated[int, Meta(ge=0, le=0o777)]
Text = Annotated[str, Meta(max_length=MAX_WRITE_CHARACTERS)]


class FileRequest(Order, frozen=True, kw_only=True):
    asked_by: Token | None = None
    """An id of the asker's own, such as an agent's tool use: the `correlationid` of the call's two events."""
    by: Annotated[str, Meta(max_length=200)] = ""
    """Who asks, as the `source` of a command says it."""


class PathRequest(FileRequest, frozen=True, kw_only=True):
    path: Path
    path_bytes: PathBytes | None = None
    """Instead of `path`, for a name that is not UTF-8: base64."""


class ReadFile(PathRequest, frozen=True, kw_only=True):
    """Lines of a text; or a whole image or other binary file, if it is small."""

    offset: Annotated[int, Meta(ge=1, le=2**53)] = 1
    """The first line wanted; the first of the file is 1."""
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = 2000
    max_bytes: Annotated[int, Meta(ge=4, le=MAX_READ_BYTES)] = 256 * 1024


class WriteFile(PathRequest, frozen=True, kw_only=True):
    """Replace a file at once, or make it with the directories on its way."""

    content: Text
    encoding: Encoding = Encoding.UTF8
    append: bool = False
    mode: Mode | None = None
    """Absent = as it was, 644 for a new one."""


class EditFile(PathRequest, frozen=True, kw_only=True):
    """Replace an exact string, which must be there once."""

    old: Annotated[str, Meta(min_length=1, max_length=MAX_WRITE_CHARACTERS)]
    new: Text
    replace_all: bool = False


class ListFiles(FileRequest, frozen=True, kw_only=True):
    """What is in a directory, sorted by path; a directory stands before what is in it."""

    path: Path = "."
    path_bytes: PathBytes | None = None
    recursive: bool = False
    after: Cursor | None = None
    """`next` of the page before."""
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES


class GlobFiles(FileRequest, frozen=True, kw_only=True):
    """Everything beneath `path` that matches: `*` and `?` within a name, `**` over directories, `[a-z]`, `{a,b}`."""

    pattern: Pattern
    path: Path = "."
    path_bytes: PathBytes | None = None
    after: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES


class GrepFiles(FileRequest, frozen=True, kw_only=True):
    """Lines that match a regular expression (RE2's syntax), in a file or in all files beneath a directory."""

    pattern: Pattern
    path: Path = "."
    path_bytes: PathBytes | None = None
    ignore_case: bool = False
    files: Pattern | None = None
    """Only files that match: a pattern as in `glob`; without `/` it is matched against the name alone."""
    context: Annotated[int, Meta(ge=0, le=20)] = 0
    """Lines before and after each match."""
    limit: Annotated[int, Meta(ge=1, le=MAX_MATCHES)] = 500
    timeout_ms: Annotated[int, Meta(ge=10, le=60_000)] = 20_000


class StatFile(PathRequest, frozen=True, kw_only=True):
    follow: bool = True
    """What a symbolic link leads to, unless it leaves the workspace; false = the link itself."""


class MakeDirectory(PathRequest, frozen=True, kw_only=True):
    """With those on its way; one that is there already is fine."""

    mode: Mode = 0o755


class RemoveFile(PathRequest, frozen=True, kw_only=True):
    """A symbolic link is removed itself, never what it leads to."""

    recursive: bool = False


class MoveFile(PathRequest, frozen=True, kw_only=True):
    """Rename, making the directories on the way. A symbolic link is moved itself."""

    to: Path
    to_bytes: PathBytes | None = None
    """Instead of `to`, for a name that is not UTF-8: base64."""
    overwrite: bool = False


class FileEntry(Struct, frozen=True, kw_only=True):
    path: str
    path_bytes: str | None = None
    kind: EntryKind
    size: int
    mode: int
    """Permission bits."""
    mtime_us: int
    symlink: str | None = None
    """Where a symbolic link points, as it says itself."""
    symlink_bytes: str | None = None

    @property
    def raw_path(self) -> bytes:
        """The path itself, whatever its bytes are."""
        return unspell(self.path, self.path_bytes)


class ContentKind(StrEnum):
    TEXT = "text"
    IMAGE = "image"
    BINARY = "binary"


class TruncatedBy(StrEnum):
    LINES = "lines"
    BYTES = "bytes"


class FileContent(Struct, frozen=True, kw_only=True):
    path: str
    kind: ContentKind
    content: str
    encoding: Encoding
    """base64 also for a text whose lines are not UTF-8."""
    bytes: int
    """Of the whole file."""
    mime: str
    total_lines: int | None = None
    """Of a text. A last line without a newline is one too."""
    first_line: int | None = None
    lines: int | None = None
    """How many are in `content`."""
    truncated: bool = False
    truncated_by: TruncatedBy | None = None
    next_offset: int | None = None
    """The line to continue from. A single line longer than `max_bytes` is cut, and what is left of it is skipped."""


class FileWritten(Struct, frozen=True, kw_only=True):
    path: str
    bytes: int
    """That were given."""
    size: int
    """Of the file now."""
    created: bool


class FileEdited(Struct, frozen=True, kw_only=True):
    path: str
    replacements: int
    first_line: int
    """Of the first one."""
    size: int


class FileListing(Struct, frozen=True, kw_only=True):
    path: str
    entries: tuple[FileEntry, ...]
    truncated: bool
    next: str | None = None
    """Give it as `after` for what follows."""
    too_deep: int = 0
    """Directories of this page that were not gone into, because what is in them has no path that is short enough."""


class GrepMatch(Struct, frozen=True, kw_only=True):
    path: str
    path_bytes: str | None = None
    line: int
    text: str
    """The line, cut where it is long; bytes that are no UTF-8 stand as `\\xNN`."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class GrepResult(Struct, frozen=True, kw_only=True):
    path: str
    matches: tuple[GrepMatch, ...]
    files_searched: int
    files_matched: int
    binary_skipped: int
    truncated: bool
    """There is more."""
    truncated_by: str | None = None
    """`matches`, `bytes` or `time`."""
    too_deep: int = 0
    """Directories that were not gone into, because what is in them has no path that is short enough."""


class DirectoryMade(Struct, frozen=True, kw_only=True):
    path: str
    created: bool


class FileRemoved(Struct, frozen=True, kw_only=True):
    path: str
    entries: int


class FileRenamed(Struct, frozen=True, kw_only=True):
    path: str
    moved_from: str


REQUESTS: dict[str, type[FileRequest]] = {
    "read": ReadFile,
    "write": WriteFile,
    "edit": EditFile,
    "list": ListFiles,
    "glob": GlobFiles,
    "grep": GrepFiles,
    "stat": StatFile,
    "mkdir": MakeDirectory,
    "remove": RemoveFile,
    "move": MoveFile,
}
ANSWERS: dict[str, type[Struct]] = {
    "read": FileContent,
    "write": FileWritten,
    "edit": FileEdited,
    "list": FileListing,
    "glob": FileListing,
    "grep": GrepResult,
    "stat": FileEntry,
    "mkdir": DirectoryMade,
    "remove": FileRemoved,
    "move": FileRenamed,
}
