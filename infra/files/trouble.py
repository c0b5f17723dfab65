"""What the system says, as situations with stable codes, never with a path of the host."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.errors import (
    ClocheError,
    Invalid,
    SandboxFileError,
    SandboxFileNotFound,
    SandboxPathDenied,
    SandboxWriteFailed,
)

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.EXDEV, errno.ENXIO, errno.ENODEV})
_WRONG = frozenset({errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ})


@contextmanager
def told(path: str, failed: type[SandboxFileError] = SandboxWriteFailed) -> Iterator[None]:
    """Every failure within names `path`. An `OSError` becomes a situation: `failed` where it is nobody's mistake."""
    try:
        yield
    except OSError as error:
        raise situation(error, path, failed) from None
    except ClocheError as error:
        if "path" in error.details:
            raise
        message = error.message if path in error.message else f"{path}: {error.message}"
        raise type(error)(message, **error.details, path=path) from None


def situation(error: OSError, path: str, failed: type[SandboxFileError] = SandboxWriteFailed) -> ClocheError:
    number = error.errno or errno.EIO
    why = f"{path}: {os.strerror(number).lower()}"
    if number in _MISSING:
        return SandboxFileNotFound(why, path=path)
    if number in _DENIED:
        return SandboxPathDenied(why, path=path)
    if number in _WRONG:
        return Invalid(why, path=path)
    return failed(why, path=path)
