"""A file or a tree of this machine, as pieces of an upload: the same ones each time, in the same order."""

import errno
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
        size = (
            len(piece.data)
            + len(piece.path) * 2
            + len(piece.path_bytes or "")
            + len(piece.symlink or b"") * 2
            + ENVELOPE
        )
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
    mode = stat.S_IMODE(info.st_mode) & 0o777
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        now = os.fstat(file.fileno())
        if not stat.S_ISREG(now.st_mode):
            raise OSError(errno.EINVAL, "neither a file nor a directory", str(path))
        size, offset, mtime_us = now.st_size, 0, max(0, now.st_mtime_ns // 1000)
        while True:
            data = _exactly(file.fileno(), min(PIECE_BYTES, size - offset), offset, path)
            if os.fstat(file.fileno()).st_mtime_ns != now.st_mtime_ns:
                raise OSError(errno.EBUSY, "it was changed while it was read", str(path))
            yield _piece(beneath, mode=mode, size=size, offset=offset, data=data, mtime_us=mtime_us)
            offset += len(data)
            if offset >= size:
                return


def _without_waiting(path: str, flags: int) -> int:
    """A pipe in the place of a file has perhaps nobody at its other end."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


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
