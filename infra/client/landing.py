"""Where a download comes down on this machine. What a sandbox names its files is never trusted."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from contracts.errors import Invalid, SandboxCopyFailed
from contracts.files import FileEntry
from contracts.spelling import parts
from contracts.transfers import DownloadPiece
from infra.files.paths import Names, check_length
from infra.files.staging import NewFile, existing
from infra.files.trouble import told
from infra.files.workspace import PREFIX, Parent, Workspace

OWNER_MAY_ALL = 0o700
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Landing:
    """Everything goes beneath one directory of ours, by the same rules as in a workspace; a file when it is whole."""

    def __init__(self, above: Workspace, name: bytes, local: Path) -> None:
        self._above = above
        self._name = name
        self._local = local
        self._part: NewFile | None = None
        self._modes: list[tuple[Names, int]] = []

    @classmethod
    def open(cls, local: Path) -> Self:
        """`local` is what the top of the download is to be called. Raises `SandboxCopyFailed`."""
        where = Path(os.path.abspath(local))  # noqa: PTH100 - a link in the last place is not followed
        if not where.name:
            raise Invalid(f"{local} cannot be replaced")
        with told(str(local), SandboxCopyFailed):
            above = Workspace.open(str(where.parent.resolve(strict=True)), str(where.parent))
        return cls(above, os.fsencode(where.name), local)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()
        self._above.close()

    def directory(self, beneath: bytes, mode: int) -> None:
        names = self._names(beneath)
        with told(self._shown(names), SandboxCopyFailed), self._above.made(names, mode | OWNER_MAY_ALL) as made:
            if made.created and mode & OWNER_MAY_ALL != OWNER_MAY_ALL:
                self._modes.append((names, mode))

    def link(self, beneath: bytes, target: bytes) -> None:
        names = self._names(beneath)
        with told(self._shown(names), SandboxCopyFailed), self._above.parent(names, make=True) as parent:
            name = PREFIX + secrets.token_hex(12).encode()
            os.symlink(target, name, dir_fd=parent.descriptor)
            try:
                os.rename(name, parent.name, src_dir_fd=parent.descriptor, dst_dir_fd=parent.descriptor)
            except OSError:
                os.unlink(name, dir_fd=parent.descriptor)
                raise

    def piece(self, beneath: bytes, piece: DownloadPiece, entry: FileEntry) -> bool:
        """True when the file is whole, and in its place."""
        names = self._names(beneath)
        with told(self._shown(names), SandboxCopyFailed), self._above.parent(names, make=True) as parent:
            if piece.offset == 0:
                self._drop()
                self._part = _new_file(parent)
            assert self._part is not None
            _write_at(self._part.descriptor, piece.data, piece.offset)
            if piece.offset + len(piece.data) < piece.size:
                return False
            existing(parent)
            os.utime(self._part.descriptor, ns=(entry.mtime_us * 1000, entry.mtime_us * 1000))
            self._part.put(self._above, parent, entry.mode)
            self._drop()
        return True

    def finish(self) -> None:
        """Directories that nobody may write into are closed when they are filled."""
        for names, mode in reversed(self._modes):
            with told(self._shown(names), SandboxCopyFailed), self._above.directory(names) as descriptor:
                os.fchmod(descriptor, mode)

    def _names(self, beneath: bytes) -> Names:
        names = (self._name, *(parts(beneath) if beneath else ()))
        check_length(names)
        return names

    def _shown(self, names: Names) -> str:
        return self._above.shown(names)

    def _drop(self) -> None:
        if self._part is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._part.name, dir_fd=self._part.directory)
            os.close(self._part.descriptor)
            os.close(self._part.directory)
            self._part = None


def _new_file(parent: Parent) -> NewFile:
    name = PREFIX + secrets.token_hex(12).encode()
    directory = os.dup(parent.descriptor)
    try:
        return NewFile(os.open(name, _NEW, 0o600, dir_fd=directory), directory, name)
    except OSError:
        os.close(directory)
        raise


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
