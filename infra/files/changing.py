"""Making directories, moving, removing."""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from contracts.errors import Conflict, Invalid, SandboxPathDenied
from contracts.files import DirectoryMade, FileRemoved, FileRenamed, MakeDirectory, MoveFile, RemoveFile
from infra.files.beneath import mount_of, reopen
from infra.files.directories import some_names
from infra.files.kernel import rename_without_replacing
from infra.files.trouble import told
from infra.files.workspace import Parent, Workspace

PATIENCE_S = 100.0
"""For emptying a directory: somebody may be filling it all the time."""
LIFTED = b".cloche-lifted-"


def make_directory(workspace: Workspace, request: MakeDirectory) -> DirectoryMade:
    """Raises `Invalid` where something else is there already, `SandboxPathDenied`, `SandboxWriteFailed`."""
    names = workspace.names(request.path, request.path_bytes)
    with told(workspace.shown(names)), workspace.made(names, request.mode) as made:
        return DirectoryMade(path=workspace.shown(names), created=made.created)


def move_file(workspace: Workspace, request: MoveFile) -> FileRenamed:
    """Raises `SandboxFileNotFound`, `SandboxPathDenied`, `Invalid` where something is there and must stay."""
    names, to = workspace.names(request.path, request.path_bytes), workspace.names(request.to, request.to_bytes)
    with told(workspace.shown(names)), workspace.parent(names, reading=True) as source:
        os.stat(source.name, dir_fd=source.descriptor, follow_symlinks=False)
        with told(workspace.shown(to)), workspace.parent(to, make=True) as target:
            if request.overwrite:
                os.rename(source.name, target.name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor)
            else:
                _rename(source, target)
    return FileRenamed(path=workspace.shown(to), moved_from=workspace.shown(names))


def _rename(source: Parent, target: Parent) -> None:
    try:
        rename_without_replacing(source.descriptor, source.name, target.descriptor, target.name)
    except FileExistsError:
        raise Invalid("it is there already, and is replaced only when that is asked for") from None


def remove_file(workspace: Workspace, request: RemoveFile) -> FileRemoved:
    """Raises `SandboxFileNotFound`, `SandboxPathDenied`, `Invalid` for a directory that is not empty."""
    names = workspace.names(request.path, request.path_bytes)
    with told(workspace.shown(names)), workspace.parent(names) as target:
        info = os.stat(target.name, dir_fd=target.descriptor, follow_symlinks=False)
        if not stat.S_ISDIR(info.st_mode):
            os.unlink(target.name, dir_fd=target.descriptor)
            removed = 1
        elif request.recursive:
            removed = _remove_tree(target.descriptor, target.name)
        else:
            _remove_empty(target)
            removed = 1
    return FileRemoved(path=workspace.shown(names), entries=removed)


def _remove_empty(target: Parent) -> None:
    try:
        os.rmdir(target.name, dir_fd=target.descriptor)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        raise Invalid("the directory is not empty: only recursively is it removed with all that is in it") from None


def _remove_tree(parent: int, name: bytes) -> int:
    """Directories inside are first moved up beneath it, so that depth costs nothing."""
    removed, numbers = 0, count()
    deadline = time.monotonic() + PATIENCE_S
    top = _open_to_empty(parent, name)
    try:
        while names := some_names(top):
            for each in names:
                with suppress(FileNotFoundError):
                    removed += _remove_entry(top, each, numbers)
            if time.monotonic() > deadline:
                raise Conflict(
                    "it is not empty yet: something goes on writing into it, or there is very much: ask again"
                )
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(top)
    return removed + 1


def _remove_entry(top: int, name: bytes, numbers: Iterator[int]) -> int:
    """How many entries are gone; what changes under our hands is left for the next time round."""
    if not _is_directory(top, name):
        os.unlink(name, dir_fd=top)
        return 1
    removed = 0
    directory = _open_to_empty(top, name)
    try:
        for child in some_names(directory):
            with suppress(FileNotFoundError):
                removed += _lift(directory, child, top, numbers)
    finally:
        os.close(directory)
    with suppress(OSError):
        os.rmdir(name, dir_fd=top)
        removed += 1
    return removed


def _lift(directory: int, child: bytes, top: int, numbers: Iterator[int]) -> int:
    if not _is_directory(directory, child):
        os.unlink(child, dir_fd=directory)
        return 1
    if os.geteuid() != 0:
        # A directory that its owner may not write into cannot be moved by him, either.
        os.close(_open_to_empty(directory, child))
    with suppress(FileExistsError):
        rename_without_replacing(directory, child, top, LIFTED + str(next(numbers)).encode())
    return 0


def _is_directory(parent: int, name: bytes) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _open_to_empty(parent: int, name: bytes) -> int:
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if mount_of(found) != mount_of(parent):
            raise SandboxPathDenied("another file system is mounted in it")
        if os.geteuid() != 0:
            Path(f"/proc/self/fd/{found}").chmod(0o700)
        return reopen(found, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(found)
