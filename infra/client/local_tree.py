"""A file or a tree of this machine, as pieces of an upload: the same ones each time, in the same order."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from contracts.events.file import EntryKind
from contracts.spelling import spell
from contracts.transfers import MAX_PIECES, PIECE_BYTES, UploadPiece

ENVELOPE = 300
"""Of a piece, besides its path and its content."""
OWNER_MAY_ALL = 0o700


def bundles(top: Path) -> Iterator[tuple[UploadPiece, ...]]:
    """Pieces, as many in each as fit into one message. Devices, pipes and sockets are left out. Raises `OSError`."""
    bundle: list[UploadPiece] = []
    room = PIECE_BYTES
    for piece in _pieces(top):
        size = len(piece.data) + len(piece.path) * 2 + len(piece.path_bytes or "") + ENVELOPE
        if bundle and (size > room or len(bundle) == MAX_PIECES):
            yield tuple(bundle)
            bundle, room = [], PIECE_BYTES
        bundle.append(piece)
        room -= size
    if bundle:
        yield tuple(bundle)


def _pieces(top: Path) -> Iterator[UploadPiece]:
    info = top.stat()
    if not stat.S_ISDIR(info.st_mode):
        yield from _file(top, b"", info)
        return
    closed: list[UploadPiece] = []
    waiting = [b""]
    while waiting:
        here = waiting.pop()
        directory = top / os.fsdecode(here)
        yield _directory(here, directory.stat(), closed)
        for path in sorted(directory.iterdir(), reverse=True):
            name = os.fsencode(path.name)
            beneath = here + b"/" + name if here else name
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                waiting.append(beneath)
            elif stat.S_ISLNK(found.st_mode):
                yield _piece(beneath, kind=EntryKind.SYMLINK, symlink=os.fsencode(path.readlink()))
            elif stat.S_ISREG(found.st_mode):
                yield from _file(path, beneath, found)
    yield from reversed(closed)


def _directory(beneath: bytes, info: os.stat_result, closed: list[UploadPiece]) -> UploadPiece:
    """One that its owner may not write into is closed at the end, when it is filled."""
    mode = stat.S_IMODE(info.st_mode) & 0o777
    if mode & OWNER_MAY_ALL != OWNER_MAY_ALL:
        closed.append(_piece(beneath, kind=EntryKind.DIRECTORY, mode=mode))
    return _piece(beneath, kind=EntryKind.DIRECTORY, mode=mode | OWNER_MAY_ALL)


def _file(path: Path, beneath: bytes, info: os.stat_result) -> Iterator[UploadPiece]:
    mode, mtime_us = stat.S_IMODE(info.st_mode) & 0o777, max(0, info.st_mtime_ns // 1000)
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        offset = 0
        while True:
            data = _exactly(file.fileno(), min(PIECE_BYTES, size - offset), offset, path)
            yield _piece(beneath, mode=mode, size=size, offset=offset, data=data, mtime_us=mtime_us)
            offset += len(data)
            if offset >= size:
                return


def _exactly(descriptor: int, size: int, offset: int, path: Path) -> bytes:
    data = os.pread(descriptor, size, offset)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            raise OSError(0, "it became shorter while it was read", str(path))
        data += more
    return data


def _piece(
    beneath: bytes,
    *,
    kind: EntryKind = EntryKind.FILE,
    mode: int = 0o644,
    size: int = 0,
    offset: int = 0,
    data: bytes = b"",
    symlink: bytes | None = None,
    mtime_us: int | None = None,
) -> UploadPiece:
    path, path_bytes = spell(beneath)
    return UploadPiece(
        path=path,
        path_bytes=path_bytes,
        kind=kind,
        mode=mode,
        size=size,
        offset=offset,
        data=data,
        symlink=symlink,
        mtime_us=mtime_us,
    )
