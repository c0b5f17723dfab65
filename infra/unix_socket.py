"""Unix sockets in deep directories."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def short_address(path: Path) -> Iterator[str]:
    """An address for a unix socket whose path may be longer than the 107 bytes that an address can hold.

    Valid inside the block. Raises OSError where the directory is not there.
    """
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
