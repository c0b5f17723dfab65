"""A workspace, open for file operations: what may be touched in it, and whose its files are."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from contracts.errors import Invalid, SandboxPathDenied
from contracts.spec import Permissions
from infra.files.beneath import Found, Top, Way, find, reopen
from infra.files.kernel import rename_without_replacing
from infra.files.paths import Names, inside_names, names_of, shown
from infra.files.permissions import Allowed, Rights, rights_of

DIRECTORY_MODE = 0o755
PREFIX = b".cloche-new-"
"""Begins the name of what is not ready yet."""
EVERYTHING = Permissions()
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


class Owner(NamedTuple):
    uid: int
    gid: int


class Parent(NamedTuple):
    """Where something has, or will have, its name."""

    descriptor: int
    name: bytes


class Made(NamedTuple):
    descriptor: int
    created: bool


class Workspace:
    """Every path that is opened here stays beneath the root, whatever the sandbox does meanwhile."""

    def __init__(
        self,
        root: int,
        inside: str,
        permissions: Permissions = EVERYTHING,
        *,
        way: Way = Way.OPENAT2,
        staging: Path | None = None,
    ) -> None:
        """`staging` is a directory of the node where new directories are made ready, if it is on this file system."""
        self.inside = inside
        self.top = Top(root, inside_names(inside))
        self.rights: Rights = rights_of(permissions)
        info = os.fstat(root)
        self.owner = Owner(info.st_uid, info.st_gid)
        self._way = way
        self._staging = staging

    @classmethod
    def open(
        cls,
        directory: str,
        inside: str,
        permissions: Permissions = EVERYTHING,
        *,
        way: Way = Way.OPENAT2,
        staging: Path | None = None,
    ) -> Self:
        """`directory` is the node's own: nothing of the sandbox is on the way to it. Raises `OSError`."""
        root = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return cls(root, inside, permissions, way=way, staging=staging)
        except BaseException:
            os.close(root)
            raise

    def close(self) -> None:
        os.close(self.top.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def names(self, path: str, path_bytes: str | None = None) -> Names:
        return names_of(path, path_bytes, self.inside)

    def shown(self, names: Names) -> str:
        return shown(names, self.inside).text

    @contextmanager
    def found(self, names: Names, *, follow: bool = True) -> Iterator[int]:
        """An `O_PATH` descriptor of what may be read."""
        found = self._find(names, self.rights.read, follow=follow)
        try:
            yield found.descriptor
        finally:
            os.close(found.descriptor)

    @contextmanager
    def file(self, names: Names) -> Iterator[int]:
        """A regular file, for reading. Raises `Invalid` for a directory, `SandboxPathDenied` for any other kind."""
        with self.found(names) as descriptor:
            self.check_readable(os.fstat(descriptor))
            opened = reopen(descriptor, os.O_RDONLY)
        try:
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def directory(self, names: Names) -> Iterator[int]:
        """For listing. Raises `Invalid` for what is none."""
        with self.found(names) as descriptor:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise Invalid(f"{self.shown(names)} is not a directory")
            opened = reopen(descriptor, _OPEN_DIRECTORY)
        try:
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def parent(self, names: Names, *, make: bool = False, reading: bool = False) -> Iterator[Parent]:
        """The directory that holds the last name, for changing it; `make` those that are missing.

        `reading`: what has the name now must be one that may be read, too. The last name itself is never followed:
        whoever uses it says so again. Raises `Invalid` for the workspace itself.
        """
        if not names:
            raise Invalid(f"{self.inside} itself stays as it is")
        descriptor = self._make(names[:-1]).descriptor if make else self._writable(names[:-1], reading=reading)
        try:
            yield Parent(descriptor, names[-1])
        finally:
            os.close(descriptor)

    @contextmanager
    def made(self, names: Names, mode: int = DIRECTORY_MODE) -> Iterator[Made]:
        """The directory, made with all on its way where it was missing."""
        made = self._make(names, mode)
        try:
            yield made
        finally:
            os.close(made.descriptor)

    def check_readable(self, info: os.stat_result) -> None:
        """Raises `Invalid`, `SandboxPathDenied`."""
        if stat.S_ISDIR(info.st_mode):
            raise Invalid("it is a directory")
        if not stat.S_ISREG(info.st_mode):
            raise SandboxPathDenied("neither a file nor a directory: devices, pipes and sockets are not opened")
        if info.st_uid != self.owner.uid:
            # A hard link to it may be all that is here; and how many there are can change at any moment.
            raise SandboxPathDenied("a file that is not the sandbox's own")

    def give(self, descriptor: int) -> None:
        """What we have made is the sandbox's."""
        if os.geteuid() == 0 and os.fstat(descriptor).st_uid != self.owner.uid:
            os.fchown(descriptor, *self.owner)

    def check(self, allowed: Allowed, names: Names | None, what: str) -> None:
        if not allowed.everything and (names is None or not allowed.covers(names)):
            raise SandboxPathDenied(f"the sandbox's permissions do not let files be {what} here")

    def _find(self, names: Names, allowed: Allowed, *, follow: bool = True) -> Found:
        found = find(
            self.top,
            names,
            follow=follow,
            way=self._way if allowed.everything else Way.WALK,
            # Whether something is there is not told either.
            on_missing=lambda missing: self.check(allowed, missing, "read"),
        )
        try:
            self.check(allowed, found.names, "read")
        except BaseException:
            os.close(found.descriptor)
            raise
        return found

    def _writable(self, names: Names, *, reading: bool = False) -> int:
        """A directory whose entries may be changed."""
        found = self._go(names, lambda missing: self.check(self.rights.write, missing, "written"))
        try:
            self.check(self.rights.write, found.names, "written")
            if reading:
                self.check(self.rights.read, found.names, "read")
            return reopen(found.descriptor, _OPEN_DIRECTORY)
        finally:
            os.close(found.descriptor)

    def _go(self, names: Names, on_missing: Callable[[Names], None] | None = None) -> Found:
        free = self.rights.write.everything and self.rights.read.everything
        return find(self.top, names, way=self._way if free else Way.WALK, on_missing=on_missing)

    def _make(self, names: Names, mode: int = DIRECTORY_MODE) -> Made:
        with suppress(FileNotFoundError, NotADirectoryError):
            return Made(self._writable(names), False)
        made = False
        for depth in range(len(names) + 1):
            made = self._ensure(names[:depth], mode)
        return Made(self._writable(names), made)

    def _ensure(self, names: Names, mode: int) -> bool:
        """True if it was missing and is there now."""
        try:
            self._check_directory(names)
        except FileNotFoundError:
            pass
        else:
            return False
        above = self._go(names[:-1])
        try:
            self.check(self.rights.write, None if above.names is None else (*above.names, names[-1]), "written")
            self._make_one(above.descriptor, names[-1], mode)
        finally:
            os.close(above.descriptor)
        return True

    def _check_directory(self, names: Names) -> None:
        found = self._go(names)
        try:
            if not stat.S_ISDIR(os.fstat(found.descriptor).st_mode):
                self.check(self.rights.write, found.names, "written")
                raise Invalid(f"{self.shown(names)} is there already, and is not a directory")
        finally:
            os.close(found.descriptor)

    def _make_one(self, above: int, name: bytes, mode: int) -> None:
        try:
            if self._staging is None or os.geteuid() != 0:
                self._make_here(above, name, mode)
            else:
                self._make_elsewhere(self._staging, above, name, mode)
        except FileExistsError:
            # Somebody was faster; or it is a link to nowhere, which is not made to lead somewhere.
            self._refuse_link(above, name)

    def _make_elsewhere(self, staging: Path, above: int, name: bytes, mode: int) -> None:
        """It is the sandbox's own before it has its name: a crash leaves none that the sandbox cannot use."""
        place = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if os.fstat(place).st_dev != os.fstat(above).st_dev:
                self._make_here(above, name, mode)
                return
            draft = PREFIX + secrets.token_hex(12).encode()
            os.mkdir(draft, 0o700, dir_fd=place)
            try:
                os.chown(draft, *self.owner, dir_fd=place, follow_symlinks=False)
                os.chmod(draft, mode, dir_fd=place)
                rename_without_replacing(place, draft, above, name)
            except BaseException:
                os.rmdir(draft, dir_fd=place)
                raise
        finally:
            os.close(place)

    def _make_here(self, above: int, name: bytes, mode: int) -> None:
        os.mkdir(name, 0o700, dir_fd=above)
        descriptor = os.open(name, _OPEN_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            # Between the two calls the sandbox may have put a directory of its own in this place.
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, mode)
                self.give(descriptor)
        finally:
            os.close(descriptor)

    def _refuse_link(self, above: int, name: bytes) -> None:
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise SandboxPathDenied("a symbolic link that leads nowhere is in the way")
