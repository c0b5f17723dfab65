"""Filling a workspace from a directory of the host."""

import os
import shutil
import stat
from pathlib import Path

from contracts.errors import Invalid, SandboxCreationFailed
from infra.sandbox.trees import open_directory

MAX_DEPTH = 200
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_directory(source: Path, target: Path, owner: int | None, most_bytes: int) -> None:
    """Copy what is beneath `source` into the existing, empty `target`, with permission bits, for `owner`.

    Symbolic links stay links and are never followed. Devices, sockets and pipes are left out.
    Raises `Invalid` when `source` is no directory that can be read, `SandboxCreationFailed` when it is too large.
    """
    copy = _Copy(owner, most_bytes)
    try:
        with open_directory(source) as from_there, open_directory(target) as to_here:
            copy.directory(from_there, to_here, 0)
    except OSError as error:
        raise Invalid(f"workspace.source: cannot copy {source}: {error}") from error


class _Copy:
    def __init__(self, owner: int | None, most_bytes: int) -> None:
        self._owner = owner
        self._left = most_bytes

    def directory(self, source: int, target: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise SandboxCreationFailed(f"workspace.source is more than {MAX_DEPTH} directories deep")
        with os.scandir(source) as entries:
            for entry in entries:
                self._entry(entry, source, target, depth)

    def _entry(self, entry: os.DirEntry[str], source: int, target: int, depth: int) -> None:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.name, dir_fd=source), entry.name, dir_fd=target)
            self._give(entry.name, target)
        elif entry.is_dir(follow_symlinks=False):
            self._subdirectory(entry.name, source, target, depth)
        elif entry.is_file(follow_symlinks=False):
            self._file(entry.name, source, target)

    def _subdirectory(self, name: str, source: int, target: int, depth: int) -> None:
        os.mkdir(name, 0o700, dir_fd=target)
        with open_directory(name, source) as below, open_directory(name, target) as copied:
            self.directory(below, copied, depth + 1)
            os.fchmod(copied, stat.S_IMODE(os.fstat(below).st_mode) & 0o777)
        self._give(name, target)

    def _file(self, name: str, source: int, target: int) -> None:
        with (
            os.fdopen(os.open(name, _READ, dir_fd=source), "rb") as original,
            os.fdopen(os.open(name, _WRITE, 0o600, dir_fd=target), "wb") as copied,
        ):
            info = os.fstat(original.fileno())
            self._left -= info.st_size
            if self._left < 0:
                raise SandboxCreationFailed("workspace.source is larger than resources.disk_mb")
            shutil.copyfileobj(original, copied, 1 << 20)
            # Never setuid or setgid: the copy belongs to somebody else.
            os.fchmod(copied.fileno(), stat.S_IMODE(info.st_mode) & 0o777)
        self._give(name, target)

    def _give(self, name: str, directory: int) -> None:
        if self._owner is not None:
            os.chown(name, self._owner, self._owner, dir_fd=directory, follow_symlinks=False)
