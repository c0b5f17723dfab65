"""New files, and directories, on their way into a workspace: whole before anybody inside can see them.

They are written in a directory of the node, on the same file system, where nothing of the sandbox reaches; a rename
makes them visible. What a crash leaves there is removed when the service starts again.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from contracts.errors import Invalid, SandboxPathDenied
from infra.files.kernel import rename_without_replacing
from infra.files.workspace import PREFIX, Parent, Workspace

FILE_MODE = 0o644
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Staging:
    """One for a node, owned by one process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def prepare(self) -> None:
        """Make it, and empty it of new files that nobody will finish."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self.directory.iterdir():
            if os.fsencode(left.name).startswith(PREFIX):
                left.rmdir() if left.is_dir() else left.unlink()

    @contextmanager
    def new_file(self, target: Parent) -> Iterator["NewFile"]:
        """An empty file that `put` brings to its place; without that it is removed."""
        staging = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # On another file system it can only be made beside its place.
            here = staging if os.fstat(staging).st_dev == os.fstat(target.descriptor).st_dev else target.descriptor
            name = PREFIX + secrets.token_hex(12).encode()
            descriptor = os.open(name, _NEW, 0o600, dir_fd=here)
            try:
                yield NewFile(descriptor, here, name)
            finally:
                os.close(descriptor)
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=here)
        finally:
            os.close(staging)


class NewFile(NamedTuple):
    descriptor: int
    directory: int
    name: bytes

    def put(self, workspace: Workspace, target: Parent, mode: int | None, *, replace: bool = True) -> bool:
        """Under its name, at once, as the sandbox's own. True if nothing was there before.

        Raises `SandboxPathDenied` for a symbolic link or a device in its place, `Invalid` for a directory.
        """
        before = existing(target)
        os.fchmod(self.descriptor, _mode(before) if mode is None else mode)
        workspace.give(self.descriptor)
        if replace:
            os.rename(self.name, target.name, src_dir_fd=self.directory, dst_dir_fd=target.descriptor)
        else:
            rename_without_replacing(self.directory, self.name, target.descriptor, target.name)
        return before is None


def existing(target: Parent) -> os.stat_result | None:
    """What a new file would replace; a link is never followed. Raises what `NewFile.put` raises."""
    try:
        info = os.stat(target.name, dir_fd=target.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(info.st_mode):
        raise SandboxPathDenied("it is a symbolic link, and a write never follows one: name the file itself")
    if stat.S_ISDIR(info.st_mode):
        raise Invalid("it is a directory")
    if not stat.S_ISREG(info.st_mode):
        raise SandboxPathDenied("neither a file nor a directory: devices, pipes and sockets are not written")
    return info


def _mode(before: os.stat_result | None) -> int:
    """Never setuid or setgid: the new file has another content."""
    return FILE_MODE if before is None else stat.S_IMODE(before.st_mode) & 0o777
