"""The kernel's inotify: one queue of notices for any number of watched directories."""

import ctypes
import fcntl
import os
import struct
import termios
from typing import NamedTuple

MODIFY = 0x0000_0002
ATTRIB = 0x0000_0004
CLOSE_WRITE = 0x0000_0008
MOVED_FROM = 0x0000_0040
MOVED_TO = 0x0000_0080
CREATE = 0x0000_0100
DELETE = 0x0000_0200
OVERFLOW = 0x0000_4000
IGNORED = 0x0000_8000
ONLY_DIRECTORY = 0x0100_0000
EXCLUDE_UNLINKED = 0x0400_0000
IS_DIRECTORY = 0x4000_0000

CHANGES = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
APPEARS = MOVED_TO | CREATE

_HEAD = struct.Struct("iIII")
READ_BYTES = 1 << 18


class Notice(NamedTuple):
    watch: int
    """-1 for an overflow, which is about all of them."""
    mask: int
    cookie: int
    """The same for both ends of a move."""
    name: bytes
    """Within the watched directory; empty when it is about the directory itself."""


class Batch(NamedTuple):
    notices: list[Notice]
    size: int
    """Bytes that they took in the queue."""


class Inotify:
    """Not thread-safe in `read`; `add` and `remove` may be called from any thread meanwhile."""

    def __init__(self) -> None:
        """Raises `OSError` where the user's instances (`fs.inotify.max_user_instances`) are used up."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._call(self._libc.inotify_init1, os.O_CLOEXEC | os.O_NONBLOCK)

    def add(self, directory: int) -> int:
        """Watch an open directory; the number of its watch, the same one for the same directory.

        By descriptor, so no name is looked up that somebody could have made a link meanwhile. Raises `OSError`,
        `ENOSPC` where the user's watches (`fs.inotify.max_user_watches`) are used up.
        """
        path = b"/proc/self/fd/%d" % directory
        return self._call(
            self._libc.inotify_add_watch, self.descriptor, path, CHANGES | ONLY_DIRECTORY | EXCLUDE_UNLINKED
        )

    def remove(self, watch: int) -> None:
        """A directory that is gone takes its watch with it, so there may be none."""
        self._libc.inotify_rm_watch(self.descriptor, watch)

    def waiting(self) -> int:
        """Bytes in the queue now."""
        found = fcntl.ioctl(self.descriptor, termios.FIONREAD, b"\0" * 4)
        return int(struct.unpack("i", found)[0])

    def read(self) -> Batch:
        """What is there, nothing if nothing is."""
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return Batch([], 0)
        return Batch(parse(data), len(data))

    def close(self) -> None:
        os.close(self.descriptor)

    @staticmethod
    def _call(function: object, *arguments: object) -> int:
        result: int = function(*arguments)  # type: ignore[operator]
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def parse(data: bytes) -> list[Notice]:
    notices: list[Notice] = []
    at = 0
    while at < len(data):
        watch, mask, cookie, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        notices.append(Notice(watch, mask, cookie, data[at : at + length].partition(b"\0")[0]))
        at += length
    return notices
