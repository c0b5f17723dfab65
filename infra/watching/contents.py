"""What is in files that others may be changing at this moment."""

import errno
import os
import stat
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import NamedTuple

from contracts.sight import Seen
from infra.watching.descent import Descent
from infra.watching.look import seen_of
from infra.watching.threads import in_thread

SMALL_BYTES = 1024 * 1024
"""Files up to this are read in one piece."""
CHUNK_BYTES = 1024 * 1024
ATTEMPTS = 3
FRESH_NS = 50_000_000
"""A file that changed this recently may change again without a trace in its times: their grain is a few ms."""
WRITTEN_OUT_NS = 120_000_000_000
"""What is stored through a mapping moves the times of a file only once for as long as the kernel has not written it to
disk, which it does within half a minute, and never where there is no disk."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Content(NamedTuple):
    path: bytes
    seen: Seen
    """The file that was read, which need not be the one that was looked at before."""
    data: bytes | None
    """None for a file that is too large to be held in one piece."""
    sure: bool
    """The same inode, size and times mean the same content from now on, unless it is mapped by somebody."""
    firm: bool = False
    """And also then."""


class Unread(NamedTuple):
    path: bytes
    error: OSError


def read_small(root: int, paths: Iterable[bytes]) -> Iterator[Content | Unread]:
    """Each file beneath the root, in the order of the paths. What is no file any more is `Unread`."""
    with Descent(root) as descent:
        for path in paths:
            try:
                yield _read(descent, path)
            except OSError as error:
                yield Unread(path, error)


def _read(descent: Descent, path: bytes) -> Content:
    descriptor = open_file(descent, path)
    try:
        for _ in range(ATTEMPTS):
            began_ns = time.time_ns()
            before = os.fstat(descriptor)
            if before.st_size > SMALL_BYTES:
                return Content(path, seen_of(before), None, sure=False)
            data = os.pread(descriptor, SMALL_BYTES + 1, 0)
            after = os.fstat(descriptor)
            if same(before, after) and len(data) == after.st_size:
                firm = is_settled(after, began_ns, WRITTEN_OUT_NS)
                return Content(path, seen_of(after), data, is_settled(after, began_ns), firm)
    finally:
        os.close(descriptor)
    # It never rests. What was read is what it was at some moment, and the next notice brings us back.
    return Content(path, seen_of(after)._replace(size=len(data)), data, sure=False)


def open_file(descent: Descent, path: bytes) -> int:
    """A regular file beneath the root. Raises `OSError`, `EINVAL` for anything else."""
    above, _, name = path.rpartition(b"/")
    directory = descent.open(above.split(b"/") if above else [])
    descriptor = os.open(name, _READ, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file any more")
    return descriptor


async def stream(descriptor: int, most: int) -> AsyncIterator[bytes]:
    """A file from its beginning, no more than `most` bytes of it. Raises `OSError`."""
    at = 0
    while at < most:
        chunk = await in_thread(os.pread, descriptor, min(CHUNK_BYTES, most - at), at)
        if not chunk:
            return
        at += len(chunk)
        yield chunk


def same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (other.st_size, other.st_mtime_ns, other.st_ctime_ns)


def is_settled(info: os.stat_result, began_ns: int, age_ns: int = FRESH_NS) -> bool:
    """By the time that nobody can forge. `began_ns` is the clock before it was read: reading may take long."""
    return began_ns - info.st_ctime_ns > age_ns
