"""Entries made beneath a directory: each in a directory that was made before it, none through a link."""

import contextlib
import os
from types import TracebackType
from typing import Self

from contracts.events.file import EntryKind
from contracts.manifest import Entry
from contracts.spelling import parts
from infra.watching.descent import Descent

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Planting:
    """Beneath one root. Every call raises `OSError`, and `Invalid` for a path that could lead out of the root."""

    def __init__(self, root: int, uid: int | None, gid: int | None) -> None:
        self._descent = Descent(root)
        self._uid = -1 if uid is None else uid
        self._gid = -1 if gid is None else gid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._descent.__exit__(kind, error, trace)

    def make_directory(self, path: bytes) -> None:
        """Ours alone until `finish`, so that everything can be put into it."""
        parent, name = self._place(path)
        os.mkdir(name, 0o700, dir_fd=parent)

    def make_symlink(self, path: bytes, target: bytes) -> None:
        parent, name = self._place(path)
        os.symlink(target, name, dir_fd=parent)

    def create(self, path: bytes) -> int:
        """A new, empty file, open for writing."""
        parent, name = self._place(path)
        return os.open(name, _CREATE, 0o600, dir_fd=parent)

    def write(self, path: bytes, data: bytes) -> None:
        descriptor = self.create(path)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def remove(self, path: bytes) -> None:
        parent, name = self._place(path)
        os.unlink(name, dir_fd=parent)

    def finish(self, path: bytes, entry: Entry) -> None:
        """Owner, permission bits and time, in the order in which one does not undo the other."""
        parent, name = self._place(path)
        if (self._uid, self._gid) != (-1, -1):
            os.chown(name, self._uid, self._gid, dir_fd=parent, follow_symlinks=False)
        if entry.kind != EntryKind.SYMLINK:
            # Nobody else writes here, so it is still the file that was made: Linux has no chmod that spares links.
            os.chmod(name, entry.mode & 0o7777, dir_fd=parent)
        if entry.mtime_us is not None:
            times = (entry.mtime_us * 1000, entry.mtime_us * 1000)
            with contextlib.suppress(OverflowError):
                os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)

    def _place(self, path: bytes) -> tuple[int, bytes]:
        *above, name = parts(path)
        return self._descent.open(above), name


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def open_root(directory: str | os.PathLike[str]) -> int:
    """Raises `OSError`, also where it is a link, or not empty."""
    root = os.open(directory, _DIRECTORY)
    if os.listdir(root):  # noqa: PTH208  of a descriptor
        os.close(root)
        raise FileExistsError(f"{os.fspath(directory)} is not empty")
    return root
