"""Files and trees in and out of a workspace, by chunks, on `cloche.rpc.<node>.<sandbox>.files.<verb>`.

`upload`, then `upload_pieces` as often as needed, then `upload_end`; `download`, then `download_entries` and
`download_pieces`, then `download_end`. The transfer's id is the asker's choice: after a lost connection or a restart of
the service, begin again with the same id and go on where it was. The whole transfer is one pair of `tool` events.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from contracts.errors import Failure
from contracts.events.file import EntryKind
from contracts.files import MAX_PATH, Cursor, FileEntry, FileRequest, Mode, Path, PathBytes, PathRequest
from contracts.ids import Token
from contracts.spelling import unspell

PIECE_BYTES = 512 * 1024
"""Of content in one message, in base64 well below what the server takes."""
MAX_PIECES = 500
MAX_LINK = 4096
"""Bytes that a symbolic link can hold."""

Size = Annotated[int, Meta(ge=0, le=2**53)]
Content = Annotated[bytes, Meta(max_length=PIECE_BYTES)]


class Upload(PathRequest, frozen=True, kw_only=True):
    """Begin, or take up again. `path` is where the file, or the top of the tree, comes to be."""

    transfer: Token


class UploadPiece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a file; or a whole directory or symbolic link."""

    path: Annotated[str, Meta(max_length=MAX_PATH)] = ""
    """Beneath the transfer's own; empty = that itself."""
    path_bytes: PathBytes | None = None
    kind: EntryKind = EntryKind.FILE
    mode: Mode = 0o644
    size: Size = 0
    """Of the whole file. With its last byte it comes to be, at once."""
    offset: Size = 0
    data: Content = b""
    symlink: Annotated[bytes, Meta(max_length=MAX_LINK)] | None = None
    mtime_us: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class UploadPieces(FileRequest, frozen=True, kw_only=True):
    transfer: Token
    number: Size
    """0, 1, 2 …: each is taken once, in order."""
    pieces: Annotated[tuple[UploadPiece, ...], Meta(max_length=MAX_PIECES)]


class UploadEnd(FileRequest, frozen=True, kw_only=True):
    transfer: Token
    failure: Failure | None = None
    """Why the asker gives up. What has come to be stays."""


class Download(PathRequest, frozen=True, kw_only=True):
    transfer: Token


class DownloadEntries(FileRequest, frozen=True, kw_only=True):
    transfer: Token
    after: Cursor | None = None


class WantedPiece(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: Path
    path_bytes: PathBytes | None = None
    offset: Size = 0
    version: Annotated[str, Meta(max_length=200)] | None = None
    """As the first piece of the file had it: a file that has changed since is refused."""


class DownloadPieces(FileRequest, frozen=True, kw_only=True):
    transfer: Token
    wanted: Annotated[tuple[WantedPiece, ...], Meta(min_length=1, max_length=MAX_PIECES)]


class DownloadEnd(FileRequest, frozen=True, kw_only=True):
    transfer: Token
    failure: Failure | None = None


class UploadState(Struct, frozen=True, kw_only=True):
    transfer: str
    number: int
    """The next one that is wanted."""
    files: int
    bytes: int
    digest: str = ""
    """Of all pieces that were taken: see `digest_after`. Whoever goes on with a transfer compares it with his own."""


class DownloadBegun(Struct, frozen=True, kw_only=True):
    transfer: str
    entry: FileEntry


class EntryPage(Struct, frozen=True, kw_only=True):
    """Beneath the transfer's path, sorted; a directory stands before what is in it."""

    entries: tuple[FileEntry, ...]
    next: str | None = None
    too_deep: int = 0
    """Directories of this page that were not gone into: what is in them cannot be copied."""


class DownloadPiece(Struct, frozen=True, kw_only=True):
    offset: int
    size: int
    """Of the whole file."""
    data: bytes
    version: str
    failure: Failure | None = None
    """This file cannot be read; the others can."""


class PiecePage(Struct, frozen=True, kw_only=True):
    pieces: tuple[DownloadPiece, ...]
    """As they were wanted, as many as fit: at least one."""


class TransferDone(Struct, frozen=True, kw_only=True):
    path: str
    files: int
    bytes: int


REQUESTS: dict[str, type[FileRequest]] = {
    "upload": Upload,
    "upload_pieces": UploadPieces,
    "upload_end": UploadEnd,
    "download": Download,
    "download_entries": DownloadEntries,
    "download_pieces": DownloadPieces,
    "download_end": DownloadEnd,
}
ANSWERS: dict[str, type[Struct]] = {
    "upload": UploadState,
    "upload_pieces": UploadState,
    "upload_end": TransferDone,
    "download": DownloadBegun,
    "download_entries": EntryPage,
    "download_pieces": PiecePage,
    "download_end": TransferDone,
}


def digest_after(digest: str, pieces: Iterable[UploadPiece]) -> str:
    """What `digest` becomes when these are taken; it is empty before the first.

    sha256 in hexadecimal of the digest before, and for each piece a line of its kind, mode, size, offset and mtime_us
    (`-` for none), and the sha256 of its path, its symlink (of nothing for none) and its data, each in hexadecimal.
    """
    digested = hashlib.sha256(digest.encode())
    for piece in pieces:
        path = unspell(piece.path, piece.path_bytes)
        hashes = [hashlib.sha256(each).hexdigest() for each in (path, piece.symlink or b"", piece.data)]
        mtime = "-" if piece.mtime_us is None else piece.mtime_us
        numbers = (piece.mode, piece.size, piece.offset, mtime)
        digested.update(" ".join([piece.kind, *map(str, numbers), *hashes]).encode() + b"\n")
    return digested.hexdigest()
