"""Things of which a data directory has at most one."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contracts.errors import Unavailable


@contextmanager
def exclusive(data: Path, name: str, advice: str) -> Iterator[None]:
    """Holds the name until the block, or the process, ends. Raises `Unavailable` when another process holds it."""
    place = data / "run"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(place / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable(f"another {name} is running on {data}: {advice}") from None
        yield
    finally:
        os.close(descriptor)
