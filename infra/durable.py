"""Small files that are there whole or not at all, also after a power cut."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces the file. Readable by the owner only. Raises OSError where the disk refuses."""
    fresh = path.with_name(f"{path.name}.new")
    write_durably(fresh, content)
    fresh.rename(path)
    sync_directory(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file where a half written one does no harm. Its name is durable once its directory is synced."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(fd)


def sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
