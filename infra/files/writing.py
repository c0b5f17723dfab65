"""Writing a file: whole and at once, or at its end."""

import os

from contracts.errors import SandboxPathDenied
from contracts.files import FileWritten, WriteFile
from contracts.payload import unpack
from infra.files.beneath import reopen
from infra.files.staging import Staging, existing
from infra.files.trouble import told
from infra.files.workspace import Parent, Workspace


def write_file(workspace: Workspace, staging: Staging, request: WriteFile) -> FileWritten:
    """Raises `SandboxPathDenied`, `Invalid` (a directory; not base64), `SandboxWriteFailed` (no space, say)."""
    names = workspace.names(request.path, request.path_bytes)
    data = unpack(request.content, request.encoding)
    with told(workspace.shown(names)), workspace.parent(names, make=True) as target:
        if request.append and existing(target) is not None:
            size, created = _append(workspace, target, data, request.mode), False
        else:
            size, created = len(data), replace_file(workspace, staging, target, data, request.mode)
    return FileWritten(path=workspace.shown(names), bytes=len(data), size=size, created=created)


def replace_file(workspace: Workspace, staging: Staging, target: Parent, data: bytes, mode: int | None) -> bool:
    """True if nothing was there before."""
    existing(target)
    with staging.new_file(target) as new:
        write_all(new.descriptor, data)
        return new.put(workspace, target, mode)


def _append(workspace: Workspace, target: Parent, data: bytes, mode: int | None) -> int:
    """In place, so never through a hard link: it might be a file of somebody else."""
    found = os.open(target.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target.descriptor)
    try:
        info = os.fstat(found)
        workspace.check_readable(info)
        if info.st_nlink != 1:
            raise SandboxPathDenied("it has other names (hard links): write it whole instead")
        descriptor = reopen(found, os.O_WRONLY | os.O_APPEND)
    finally:
        os.close(found)
    try:
        write_all(descriptor, data)
        if mode is not None:
            os.fchmod(descriptor, mode)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
