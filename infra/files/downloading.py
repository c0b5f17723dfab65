"""Files and trees out of a workspace, piece by piece."""

import hashlib
import os
from typing import NamedTuple

import msgspec

from contracts import codec
from contracts.errors import ClocheError, Invalid, SandboxCopyFailed
from contracts.files import MAX_ENTRIES
from contracts.transfers import (
    PIECE_BYTES,
    DownloadBegun,
    DownloadEntries,
    DownloadPiece,
    DownloadPieces,
    EntryPage,
    PiecePage,
    WantedPiece,
)
from infra.files.editing import version
from infra.files.entries import page_of, stat_names
from infra.files.transfers import Transfer
from infra.files.trouble import told
from infra.files.workspace import Workspace

CHANGED = {"changed": "yes"}
"""In the details of a failure after which the file can be begun anew."""
ENVELOPE = 200
"""Of each piece besides its content."""


class Given(NamedTuple):
    page: PiecePage
    transfer: Transfer


def begin_download(workspace: Workspace, transfer: Transfer) -> DownloadBegun:
    with told(workspace.shown(transfer.names), SandboxCopyFailed):
        return DownloadBegun(transfer=transfer.transfer, entry=stat_names(workspace, transfer.names))


def give_entries(workspace: Workspace, request: DownloadEntries, transfer: Transfer) -> EntryPage:
    with told(workspace.shown(transfer.names), SandboxCopyFailed):
        page = page_of(workspace, transfer.names, recursive=True, after=request.after, limit=MAX_ENTRIES)
    return EntryPage(entries=page.entries, next=page.next, too_deep=page.too_deep)


def give_pieces(workspace: Workspace, request: DownloadPieces, transfer: Transfer) -> Given:
    """As many as fit. A file that cannot be read fails alone. Raises `Invalid` for what is not in the transfer."""
    pieces: list[DownloadPiece] = []
    asked = hashlib.sha256(codec.encode(request)).hexdigest()
    is_repeated, transfer = asked == transfer.asked, msgspec.structs.replace(transfer, asked=asked)
    room = PIECE_BYTES
    for wanted in request.wanted:
        piece = _piece(workspace, wanted, transfer, room)
        pieces.append(piece)
        if not is_repeated:
            transfer = _counted(transfer, piece)
        room -= len(piece.data) + ENVELOPE + (len(codec.encode(piece.failure)) if piece.failure else 0)
        if room <= 0:
            break
    return Given(PiecePage(pieces=tuple(pieces)), transfer)


def _counted(transfer: Transfer, piece: DownloadPiece) -> Transfer:
    whole = piece.failure is None and piece.offset + len(piece.data) >= piece.size
    return msgspec.structs.replace(transfer, files=transfer.files + whole, bytes=transfer.bytes + len(piece.data))


def _piece(workspace: Workspace, wanted: WantedPiece, transfer: Transfer, room: int) -> DownloadPiece:
    names = workspace.names(wanted.path, wanted.path_bytes)
    if names[: len(transfer.names)] != transfer.names:
        raise Invalid(f"{workspace.shown(names)} is not in this transfer")
    try:
        with told(workspace.shown(names), SandboxCopyFailed), workspace.file(names) as descriptor:
            return _read(descriptor, wanted, room, workspace.shown(names))
    except ClocheError as error:
        return DownloadPiece(offset=wanted.offset, size=0, data=b"", version="", failure=error.failure())


def _read(descriptor: int, wanted: WantedPiece, room: int, shown: str) -> DownloadPiece:
    info = os.fstat(descriptor)
    if wanted.version not in (None, version(info)):
        raise SandboxCopyFailed(f"{shown} was changed while it was downloaded", **CHANGED)
    data = os.pread(descriptor, room, wanted.offset)
    if version(os.fstat(descriptor)) != version(info):
        raise SandboxCopyFailed(f"{shown} was changed while it was downloaded", **CHANGED)
    return DownloadPiece(offset=wanted.offset, size=info.st_size, data=data, version=version(info))
