"""A lock that lives exactly as long as anything of a sandbox's incarnation.

It is taken on the log file's open description, which bubblewrap and init inherit as standard error. So even when the
service dies right after starting one, the next service can tell whether something of it is still alive.
"""

import fcntl
import os
import struct
from pathlib import Path

_FLOCK = "hhqqi4x"


def hold_life_lock(path: Path) -> int | None:
    """A descriptor that holds the lock and is to be inherited; None when something alive holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _whole_file())
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    return descriptor


def is_life_lock_held(path: Path) -> bool:
    """Only looks; it never holds the lock itself, not even for a moment."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file())
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def _whole_file() -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
