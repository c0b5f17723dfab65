"""What the system says, as situations with stable codes, never with a path of the host."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import (
    ClocheError,
    Invalid,
    SandboxFileNotFound,
    SandboxPathDenied,
    SandboxWriteFailed,
    Unavailable,
)

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.EXDEV, errno.ENXIO, errno.ENODEV})
_WRONG = frozenset({errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ})
_BUSY = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The node's own limits: they say nothing about the file."""


@contextmanager
def told(path: str, failed: type[ClocheError] = SandboxWriteFailed) -> Iterator[None]:
    """Every failure within names `path`. An `OSError` becomes a situation: `failed` where it is nobody's mistake."""
    try:
        with translated(path, failed):
            yield
    except ClocheError as error:
        if "path" in error.details:
            raise
        message = error.message if path in error.message else f"{path}: {error.message}"
        raise type(error)(message, **error.details, path=path) from None


@contextmanager
def translated(path: str, failed: type[ClocheError]) -> Iterator[None]:
    """An `OSError` becomes a situation that names `path`; every other failure stays as it is."""
    try:
        yield
    except OSError as error:
        raise situation(error, path, failed) from None


def situation(error: OSError, path: str, failed: type[ClocheError] = SandboxWriteFailed) -> ClocheError:
    number = error.errno or errno.EIO
    why = f"{path}: {os.strerror(number).lower()}"
    if number in _MISSING:
        return SandboxFileNotFound(why, path=path)
    if number in _DENIED:
        return SandboxPathDenied(why, path=path)
    if number in _WRONG:
        return Invalid(why, path=path)
    if number in _BUSY:
        return Unavailable(why, path=path)
    return failed(why, path=path)
