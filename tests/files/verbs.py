"""Every verb as one call on a path, for tests that hold for all of them."""

import base64
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from contracts import files, transfers
from contracts.errors import from_failure
from infra.files.changing import make_directory, move_file, remove_file
from infra.files.downloading import begin_download, give_entries, give_pieces
from infra.files.editing import edit_file
from infra.files.entries import glob_files, list_files, stat_file
from infra.files.reading import read_file
from infra.files.searching import grep_files
from infra.files.transfers import Transfer, Transfers, encoded
from infra.files.uploading import take_pieces
from infra.files.workspace import Workspace
from infra.files.writing import write_file
from tests.files.workspaces import Ground

GIGABYTE = 1 << 30
Verb = Callable[[Ground, Workspace, str, str | None], Struct]


def _read(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return read_file(workspace, files.ReadFile(path=path, path_bytes=raw))


def _write(ground: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return write_file(workspace, ground.staging, files.WriteFile(path=path, path_bytes=raw, content="written"))


def _append(ground: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    request = files.WriteFile(path=path, path_bytes=raw, content="appended", append=True)
    return write_file(workspace, ground.staging, request)


def _edit(ground: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    request = files.EditFile(path=path, path_bytes=raw, old="secret", new="edited", replace_all=True)
    return edit_file(workspace, ground.staging, request)


def _list(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return list_files(workspace, files.ListFiles(path=path, path_bytes=raw, recursive=True))


def _glob(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return glob_files(workspace, files.GlobFiles(path=path, path_bytes=raw, pattern="**"))


def _grep(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return grep_files(workspace, files.GrepFiles(path=path, path_bytes=raw, pattern="."))


def _stat(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return stat_file(workspace, files.StatFile(path=path, path_bytes=raw))


def _mkdir(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return make_directory(workspace, files.MakeDirectory(path=path, path_bytes=raw))


def _remove(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return remove_file(workspace, files.RemoveFile(path=path, path_bytes=raw, recursive=True))


def _move_from(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return move_file(workspace, files.MoveFile(path=path, path_bytes=raw, to="moved", overwrite=True))


def _move_to(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    return move_file(workspace, files.MoveFile(path="plain", to=path, to_bytes=raw))


def _transfer(kind: str, workspace: Workspace, path: str, raw: str | None, transfer: str = "") -> Transfer:
    return Transfer(
        kind="upload" if kind == "upload" else "download",
        sandbox="sb",
        transfer=transfer or kind,
        call="t-1",
        asked_by=None,
        path=encoded(workspace.names(path, raw)),
        begun_ns=0,
    )


def _upload(ground: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    transfers_here = Transfers(Path(ground.host, "transfers"))
    transfer = _transfer("upload", workspace, path, raw)
    transfers_here.drop(transfer)
    transfers_here.begin(transfer)
    request = transfers.UploadPieces(
        transfer="upload", number=transfer.number, pieces=(transfers.UploadPiece(size=8, data=b"uploaded"),)
    )
    return take_pieces(workspace, transfers_here, request, transfer, GIGABYTE)


def _upload_into(ground: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    """As the path of a piece of an upload to the top."""
    transfers_here = Transfers(Path(ground.host, "transfers"))
    transfer = _transfer("upload", workspace, ".", None, "into")
    transfers_here.drop(transfer)
    transfers_here.begin(transfer)
    piece = transfers.UploadPiece(path=path, path_bytes=raw, size=8, data=b"uploaded")
    request = transfers.UploadPieces(transfer="into", number=transfer.number, pieces=(piece,))
    return take_pieces(workspace, transfers_here, request, transfer, GIGABYTE)


def _download(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    transfer = _transfer("download", workspace, path, raw)
    entry = begin_download(workspace, transfer).entry
    if entry.kind == "directory":
        return give_entries(workspace, transfers.DownloadEntries(transfer="download"), transfer)
    return _pieces(workspace, transfer, path, raw)


def _download_piece(_: Ground, workspace: Workspace, path: str, raw: str | None) -> Struct:
    """As a piece of a download of the top."""
    return _pieces(workspace, _transfer("download", workspace, ".", None), path, raw)


def _pieces(workspace: Workspace, transfer: Transfer, path: str, raw: str | None) -> Struct:
    request = transfers.DownloadPieces(transfer="download", wanted=(transfers.WantedPiece(path=path, path_bytes=raw),))
    page = give_pieces(workspace, request, transfer).page
    for piece in page.pieces:
        if piece.failure is not None:
            raise from_failure(piece.failure)
    return page


VERBS: dict[str, Verb] = {
    "read": _read,
    "write": _write,
    "append": _append,
    "edit": _edit,
    "list": _list,
    "glob": _glob,
    "grep": _grep,
    "stat": _stat,
    "mkdir": _mkdir,
    "remove": _remove,
    "move_from": _move_from,
    "move_to": _move_to,
    "upload": _upload,
    "upload_into": _upload_into,
    "download": _download,
    "download_piece": _download_piece,
}
OF_THE_LINK_ITSELF = frozenset({"remove", "move_from"})
"""These act on a symbolic link, never on what it leads to."""


def raw_path(path: bytes) -> str:
    return base64.b64encode(path).decode()
