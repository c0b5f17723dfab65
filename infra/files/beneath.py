"""Opening what lies beneath a directory whose contents somebody hostile changes all the time.

Two ways, which answer alike. `openat2` has the kernel refuse to leave, in one call; whatever it refuses, or does not
know, is walked: one name at a time, each opened beneath the descriptor of the one before and never following a link, so
that a link can only ever lead to names that are looked up the same way, from the top. Neither has a moment in which a
path that was checked could have become another one.

A symbolic link is followed if it stays beneath. An absolute one is meant as the sandbox sees it: `/workspace/a` is
beneath, `/etc` is not. A mount point is never crossed.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from contracts.errors import SandboxPathDenied
from infra.files import kernel

MAX_LINKS = 40
MAX_STEPS = 20_000
"""Of a walk: a chain of links can be long without being a circle."""
TRIES = 8
"""While directories are renamed above a `..`, the kernel asks to try again."""

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK_INSTEAD = frozenset(
    {
        errno.EXDEV,
        errno.ELOOP,
        errno.ENOSYS,
        errno.EPERM,
        errno.EINVAL,
        errno.E2BIG,
        errno.EAGAIN,
        # Of a whole path, which step by step can be longer.
        errno.ENAMETOOLONG,
    }
)


class Way(StrEnum):
    OPENAT2 = "openat2"
    WALK = "walk"


class Found(NamedTuple):
    descriptor: int
    """Opened with `O_PATH`: it names what was found, whatever becomes of the path."""
    names: tuple[bytes, ...] | None
    """The way to it without links; None where the kernel went it and does not tell."""


class Top(NamedTuple):
    """The directory that nothing leaves."""

    descriptor: int
    inside: tuple[bytes, ...]
    """The names of its path as the sandbox sees it."""


def find(
    top: Top,
    names: Sequence[bytes],
    *,
    follow: bool = True,
    way: Way = Way.OPENAT2,
    on_missing: Callable[[tuple[bytes, ...]], None] | None = None,
) -> Found:
    """Open what `names` lead to; `follow` a symbolic link in the last of them.

    A walk calls `on_missing` with the way, without links, to what is not there or no directory, before it raises.
    Raises `SandboxPathDenied` for what leads out, and `OSError` for what is not there or cannot be looked at.
    """
    if way == Way.OPENAT2:
        try:
            return Found(_by_kernel(top, names, follow=follow), None)
        except OSError as error:
            if error.errno not in _WALK_INSTEAD:
                raise
    return _Walk(top, names, follow=follow, on_missing=on_missing).run()


def _by_kernel(top: Top, names: Sequence[bytes], *, follow: bool) -> int:
    flags = os.O_PATH | (0 if follow else os.O_NOFOLLOW)
    resolve = kernel.BENEATH | kernel.NO_MAGICLINKS | kernel.NO_XDEV
    for attempt in range(TRIES):
        try:
            return kernel.openat2(top.descriptor, b"/".join(names) or b".", flags, resolve)
        except BlockingIOError:
            if attempt == TRIES - 1:
                raise
    raise AssertionError


class _Walk:
    def __init__(
        self,
        top: Top,
        names: Sequence[bytes],
        *,
        follow: bool,
        on_missing: Callable[[tuple[bytes, ...]], None] | None,
    ) -> None:
        self._on_missing = on_missing
        self._top = top
        self._follow = follow
        self._waiting = list(reversed(names))
        self._here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top.descriptor)
        self._mount = mount_of(self._here)
        self._names: list[bytes] = []
        self._links = 0
        self._steps = 0

    def run(self) -> Found:
        try:
            while self._waiting:
                self._step(self._waiting.pop())
        except BaseException:
            os.close(self._here)
            raise
        return Found(self._here, tuple(self._names))

    def _step(self, name: bytes) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise SandboxPathDenied("too many symbolic links on the way")
        if name == b"..":
            self._up()
        elif name not in (b"", b"."):
            self._down(name)

    def _down(self, name: bytes) -> None:
        try:
            child = os.open(name, _PATH, dir_fd=self._here)
        except OSError:
            if self._on_missing is not None:
                self._on_missing((*self._names, name))
            raise
        try:
            mode = os.fstat(child).st_mode
            if stat.S_ISLNK(mode) and (self._waiting or self._follow):
                self._turn(os.readlink(b"", dir_fd=child))
                os.close(child)
                return
            if self._waiting and not stat.S_ISDIR(mode):
                if self._on_missing is not None:
                    self._on_missing((*self._names, name))
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if mount_of(child) != self._mount:
                raise SandboxPathDenied("another file system is mounted on the way")
        except BaseException:
            os.close(child)
            raise
        self._move(child)
        self._names.append(name)

    def _turn(self, target: bytes) -> None:
        """Go where a link points, beginning where it lies or at the top."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise SandboxPathDenied("too many symbolic links on the way")
        names = target.split(b"/")
        if target.startswith(b"/"):
            names = self._beneath_top([name for name in names if name not in (b"", b".")])
            self._restart()
        self._waiting += reversed(names)

    def _beneath_top(self, names: list[bytes]) -> list[bytes]:
        inside = list(self._top.inside)
        if names[: len(inside)] != inside:
            raise SandboxPathDenied("a symbolic link on the way leads out of the workspace")
        return names[len(inside) :]

    def _up(self) -> None:
        """By walking down again: what is above a directory that was moved meanwhile may lie anywhere."""
        if not self._names:
            raise SandboxPathDenied("a symbolic link on the way leads out of the workspace")
        self._waiting += reversed(self._names[:-1])
        self._restart()

    def _restart(self) -> None:
        self._move(os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._top.descriptor))
        self._names.clear()

    def _move(self, descriptor: int) -> None:
        os.close(self._here)
        self._here = descriptor


def mount_of(descriptor: int) -> bytes:
    """Which mount a descriptor is on. Its device would not do: a directory can be bound from the same file system."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:  # noqa: PTH123
        for line in file.read().splitlines():
            if line.startswith(b"mnt_id:"):
                return line
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def reopen(descriptor: int, flags: int) -> int:
    """The very thing that an `O_PATH` descriptor names, opened for use."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
