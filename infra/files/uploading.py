"""Files and trees into a workspace, piece by piece; each file comes to be at once, when it is whole."""

import hashlib
import os
import secrets
from contextlib import suppress

import msgspec

from contracts.errors import Conflict, Invalid, SandboxCopyFailed, SandboxFileTooLarge
from contracts.events.file import EntryKind
from contracts.spelling import parts, unspell
from contracts.transfers import UploadPiece, UploadPieces, UploadState, digest_after
from infra.files.paths import Names, check_length
from infra.files.staging import NewFile, existing
from infra.files.transfers import PART, Part, Transfer, Transfers, encoded, open_place
from infra.files.trouble import told
from infra.files.workspace import PREFIX, Parent, Workspace

_PART = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def upload_state(transfer: Transfer) -> UploadState:
    return UploadState(
        transfer=transfer.transfer,
        number=transfer.number,
        files=transfer.files,
        bytes=transfer.bytes,
        digest=transfer.digest,
    )


def take_pieces(
    workspace: Workspace, transfers: Transfers, request: UploadPieces, transfer: Transfer, most: int
) -> Transfer:
    """The transfer after these pieces; they may be taken again after a crash in the middle.

    Raises `Conflict` for pieces out of turn, `SandboxFileTooLarge` beyond `most` bytes, and what `write_file` raises.
    """
    if request.number == transfer.number - 1:
        return transfer
    if request.number != transfer.number:
        raise Conflict(f"pieces {request.number} came while {transfer.number} are wanted", wanted=str(transfer.number))
    place = open_place(transfers.place(transfer.sandbox, transfer.transfer))
    try:
        for piece in request.pieces:
            transfer = _Piece(workspace, transfer, piece, place).take(most)
    finally:
        os.close(place)
    digest = digest_after(transfer.digest, request.pieces)
    transfer = msgspec.structs.replace(transfer, number=transfer.number + 1, digest=digest)
    transfers.save(transfer)
    return transfer


class _Piece:
    def __init__(self, workspace: Workspace, transfer: Transfer, piece: UploadPiece, place: int) -> None:
        self._workspace = workspace
        self._transfer = transfer
        self._piece = piece
        self._place = place
        beneath = unspell(piece.path, piece.path_bytes)
        self._names: Names = (*transfer.names, *(parts(beneath) if beneath else ()))
        check_length(self._names)
        self._part = PART + hashlib.sha256(b"/".join(self._names)).hexdigest()[:32].encode()

    def take(self, most: int) -> Transfer:
        piece = self._piece
        if piece.size > most or self._transfer.bytes + len(piece.data) > most:
            size = max(piece.size, self._transfer.bytes + len(piece.data))
            raise SandboxFileTooLarge(f"{size} bytes: the sandbox's disk has {most}", size=str(size), limit=str(most))
        with told(self._workspace.shown(self._names), SandboxCopyFailed):
            match piece.kind:
                case EntryKind.FILE:
                    return self._file()
                case EntryKind.DIRECTORY:
                    return self._directory()
                case EntryKind.SYMLINK:
                    return self._link()
                case EntryKind.OTHER:
                    raise Invalid("only files, directories and symbolic links are uploaded")

    def _directory(self) -> Transfer:
        """Its mode holds also where it is there already: a tree ends with those that nobody may write into."""
        with self._workspace.made(self._names, self._piece.mode) as made:
            if not made.created and self._names != self._transfer.names:
                os.fchmod(made.descriptor, self._piece.mode)
        return self._transfer

    def _file(self) -> Transfer:
        piece, end = self._piece, self._piece.offset + len(self._piece.data)
        if end > piece.size or (not piece.data and end < piece.size):
            raise Invalid(f"a piece of {len(piece.data)} bytes at {piece.offset} of a file of {piece.size}")
        self._check_same()
        part = os.open(self._part, _PART, 0o600, dir_fd=self._place)
        try:
            if os.fstat(part).st_size < piece.offset:
                if end == piece.size and self._is_there():
                    os.unlink(self._part, dir_fd=self._place)
                    return self._after(len(piece.data), whole=True)
                raise Invalid(f"a piece at {piece.offset}, but only {os.fstat(part).st_size} bytes are here")
            os.ftruncate(part, piece.offset)
            _write_at(part, piece.data, piece.offset)
            if end == piece.size:
                self._put(part)
        finally:
            os.close(part)
        return self._after(len(piece.data), whole=end == piece.size)

    def _after(self, taken: int, *, whole: bool) -> Transfer:
        return msgspec.structs.replace(
            self._transfer,
            part=None if whole else self._identity,
            files=self._transfer.files + whole,
            bytes=self._transfer.bytes + taken,
        )

    @property
    def _identity(self) -> Part:
        return Part(path=encoded(self._names), size=self._piece.size, mtime_us=self._piece.mtime_us)

    def _check_same(self) -> None:
        known = self._transfer.part
        if self._piece.offset and known is not None and known != self._identity:
            raise Conflict("the file was changed since its upload was begun: begin again")

    def _is_there(self) -> bool:
        """It was put in its place just before a crash, and nobody could note it."""
        with self._workspace.parent(self._names) as target:
            info = existing(target)
        return info is not None and info.st_size == self._piece.size

    def _put(self, part: int) -> None:
        with self._workspace.parent(self._names, make=True) as target:
            existing(target)
            if self._piece.mtime_us is not None:
                os.utime(part, ns=(self._piece.mtime_us * 1000, self._piece.mtime_us * 1000))
            NewFile(part, self._place, self._part).put(self._workspace, target, self._piece.mode)

    def _link(self) -> Transfer:
        if not self._piece.symlink:
            raise Invalid("a symbolic link must lead somewhere")
        name = PREFIX + secrets.token_hex(12).encode()
        with self._workspace.parent(self._names, make=True) as target:
            os.symlink(self._piece.symlink, name, dir_fd=self._place)
            try:
                self._put_link(name, target)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._place)
        return self._transfer

    def _put_link(self, name: bytes, target: Parent) -> None:
        """In the place of a link or a file; a directory stays."""
        if os.geteuid() == 0:
            os.chown(name, *self._workspace.owner, dir_fd=self._place, follow_symlinks=False)
        os.rename(name, target.name, src_dir_fd=self._place, dst_dir_fd=target.descriptor)


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
