"""Questions about files at a sequence of the log, on `cloche.rpc.state.files` and `.file`, and their answers.

They are answered from the log and the blobs alone, so also for a sandbox that is stopped or gone.
A path is relative to the workspace, or absolute as the sandbox sees it.
"""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.ids import SandboxId
from contracts.lacking import Lack
from contracts.manifest import Entry
from contracts.message import Order
from contracts.payload import Encoding

MAX_CONTENT_BYTES = 512 * 1024
"""Of one answer: in base64 it still fits into one message."""

Sequence = Annotated[int, Meta(ge=1, le=2**53)]
Path = Annotated[str, Meta(max_length=16_384)]


class ListFilesAt(Order, frozen=True, kw_only=True):
    """Entries in the order of their raw names. To continue, ask with the answer's `sequence` and `next`."""

    sandbox: SandboxId
    at: Sequence | None = None
    """Absent = now."""
    path: Path = ""
    """A directory, or one entry. Empty = the workspace."""
    path_bytes: Path | None = None
    """Instead of `path`, for a name that is not UTF-8: base64."""
    recursive: bool = True
    after: Path | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class FilesAt(Struct, frozen=True, kw_only=True):
    sequence: int
    """The sequence that this holds for."""
    workspace: str
    """Where the sandbox sees the tree; entries name their paths relative to it."""
    entries: tuple[Entry, ...]
    next: str | None = None
    """There is more: ask for what comes `after` this."""
    lacking: tuple[Lack, ...] = ()
    """What the log has lost since the sandbox began, up to there: a file may be older than it was then."""


class ReadFileAt(Order, frozen=True, kw_only=True):
    """A piece of a file's content. To continue, ask with the answer's `sequence` and the next offset."""

    sandbox: SandboxId
    path: Path
    path_bytes: Path | None = None
    at: Sequence | None = None
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0
    max_bytes: Annotated[int, Meta(ge=1, le=MAX_CONTENT_BYTES)] = MAX_CONTENT_BYTES


class FileAt(Struct, frozen=True, kw_only=True):
    sequence: int
    workspace: str
    entry: Entry
    offset: int
    data: str
    encoding: Encoding
    more: bool
    """This is not the end of the file."""
    lacking: tuple[Lack, ...] = ()
    """As in `FilesAt`."""


REQUESTS: dict[str, type[Order]] = {"files": ListFilesAt, "file": ReadFileAt}
ANSWERS: dict[str, type[Struct]] = {"files": FilesAt, "file": FileAt}
