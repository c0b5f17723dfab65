"""One CLI at a time, also when the process that started the other is gone."""

import asyncio
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from contracts.errors import Unavailable

INTERVAL_S = 0.1


@asynccontextmanager
async def locked(path: Path, wait_s: float) -> AsyncIterator[int]:
    """Yields the descriptor that holds the lock: a child that keeps it open holds the lock on.

    Raises `Unavailable` where another still holds it after `wait_s`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        await _wait(descriptor, path, wait_s)
        yield descriptor
    finally:
        os.close(descriptor)


async def _wait(descriptor: int, path: Path, wait_s: float) -> None:
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if asyncio.get_running_loop().time() >= deadline:
                raise Unavailable(f"another devcontainer command still runs and holds {path}") from None
        await asyncio.sleep(INTERVAL_S)


def builds() -> Path:
    """One for all of this user's builds: without BuildKit the CLI hands features over under one and the same tag."""
    return Path(tempfile.gettempdir()) / f"cloche-devcontainer-build-{os.getuid()}.lock"
