"""Two system calls that Python does not have: `openat2` and `renameat2`."""

import ctypes
import errno
import os
import platform
from functools import cache

OPENAT2 = 437
"""The same number on every architecture."""
RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}

NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x01, 0x02, 0x04, 0x08
RENAME_NOREPLACE = 1


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """A descriptor. Raises `OSError`, without any path in it; `ENOSYS` where the kernel does not know the call."""
    how = _How(flags | os.O_CLOEXEC, 0, resolve)
    made: int = _libc().syscall(OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
    if made < 0:
        raise _error()
    return made


def rename_without_replacing(source: int, name: bytes, target: int, new_name: bytes) -> None:
    """Raises `FileExistsError` where something has the new name, and `OSError`."""
    number = RENAMEAT2.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if _libc().syscall(number, source, name, target, new_name, RENAME_NOREPLACE) < 0:
        raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
