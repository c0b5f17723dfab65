"""Walking and removing directory trees that somebody hostile has made.

Nothing here opens a path of more than one name, follows a symbolic link, or holds more than a few descriptors,
however deep the tree.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from infra.sandbox.base import DiskUsage

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_directory(path: str | Path, parent: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, _DIRECTORY, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Walk:
    """Down by name and up by `..`, which is checked: what was moved meanwhile is never walked out of."""

    def __init__(self, root: int) -> None:
        self.here = os.dup(root)
        self.above: list[tuple[tuple[int, int], list[str]]] = []
        self.bytes = self.entries = self.unreadable = 0
        self.linked: set[tuple[int, int]] = set()

    def run(self) -> DiskUsage:
        waiting = self._measure()
        while waiting or self.above:
            if not waiting:
                waiting = self._up()
            elif self._down(name := waiting.pop(), waiting):
                waiting = self._measure()
            else:
                self.unreadable += self._is_directory(name)
        return DiskUsage(bytes=self.bytes, entries=self.entries, unreadable=self.unreadable)

    def _measure(self) -> list[str]:
        """Count what is directly here; answers the names of the directories among it."""
        directories = []
        with os.scandir(self.here) as entries:
            for entry in entries:
                try:
                    info = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                self._count(info)
                if stat.S_ISDIR(info.st_mode):
                    directories.append(entry.name)
        return directories

    def _count(self, info: os.stat_result) -> None:
        self.entries += 1
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            key = (info.st_dev, info.st_ino)
            if key in self.linked:
                return
            self.linked.add(key)
        self.bytes += info.st_blocks * 512

    def _down(self, name: str, waiting: list[str]) -> bool:
        try:
            below = os.open(name, _DIRECTORY, dir_fd=self.here)
        except OSError:
            return False
        self.above.append((_identity(self.here), waiting))
        self._move(below)
        return True

    def _up(self) -> list[str]:
        expected, waiting = self.above.pop()
        try:
            parent = os.open("..", _DIRECTORY, dir_fd=self.here)
        except OSError:
            return self._give_up()
        self._move(parent)
        return waiting if _identity(parent) == expected else self._give_up()

    def _give_up(self) -> list[str]:
        self.above.clear()
        self.unreadable += 1
        return []

    def _move(self, descriptor: int) -> None:
        os.close(self.here)
        self.here = descriptor

    def _is_directory(self, name: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self.here, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def close(self) -> None:
        os.close(self.here)


def _identity(descriptor: int) -> tuple[int, int]:
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


def measure_tree(root: Path) -> DiskUsage:
    """Blocks in use beneath `root`, each hard-linked file once, while processes go on changing it."""
    with open_directory(root) as descriptor:
        walk = _Walk(descriptor)
        try:
            return walk.run()
        finally:
            walk.close()


def remove_tree(root: Path) -> None:
    """Delete `root` and all beneath it; nothing may be writing there any more. What is missing already is fine.

    Directories are first moved up beneath `root`, so depth costs nothing. Raises `OSError` for what cannot be deleted.
    """
    numbers = count()
    with suppress(FileNotFoundError):
        if root.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, "a symbolic link is not a tree", str(root))
        root.chmod(0o700)
        with open_directory(root) as top:
            while names := os.listdir(top):  # noqa: PTH208 - of a descriptor
                for name in names:
                    with suppress(FileNotFoundError):
                        _remove_entry(top, name, numbers)
        root.rmdir()


def _remove_entry(top: int, name: str, numbers: Iterator[int]) -> None:
    if not _is_directory(top, name):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    with open_directory(name, top) as directory:
        for child in os.listdir(directory):  # noqa: PTH208
            with suppress(FileNotFoundError):
                if _is_directory(directory, child):
                    _lift(directory, child, top, numbers)
                else:
                    os.unlink(child, dir_fd=directory)
    os.rmdir(name, dir_fd=top)


def _is_directory(parent: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _lift(directory: int, child: str, top: int, numbers: Iterator[int]) -> None:
    os.chmod(child, 0o700, dir_fd=directory)
    while True:
        try:
            os.rename(child, f".lifted-{next(numbers)}", src_dir_fd=directory, dst_dir_fd=top)
        except OSError as error:
            # Something of that name is there already; an empty directory would even be replaced, which is as good.
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                raise
        else:
            return
