"""What was hashed since the last checkpoint, outside the store: so the end of the log cannot change unseen."""

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from contracts.chain import LEAF_BYTES
from infra.durable import write_atomically

FILE = "tail"
_LINE = struct.Struct(f">QI{LEAF_BYTES}s")


class Seen(NamedTuple):
    """One sequence, as it was."""

    sequence: int
    moment: int
    """Tells the time that it was stored at from others."""
    leaf: bytes
    """Its beginning."""


def moment_of(stored_at: str) -> int:
    return zlib.crc32(stored_at.encode())


class Tail:
    """Append-only between two checkpoints. What a crash left half written at its end is not read."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def read(self) -> list[Seen]:
        """In the order of writing. Raises OSError."""
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return []
        whole = len(raw) - len(raw) % _LINE.size
        return [Seen(*fields) for fields in _LINE.iter_unpack(raw[:whole])]

    def append(self, seen: Sequence[Seen]) -> None:
        """In order. Raises OSError."""
        if not seen:
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            torn = os.fstat(fd).st_size % _LINE.size
            if torn:
                os.ftruncate(fd, os.fstat(fd).st_size - torn)
            lines = b"".join(_LINE.pack(*each) for each in seen)
            while lines:
                lines = lines[os.write(fd, lines) :]
        finally:
            os.close(fd)

    def restart(self, seen: Sequence[Seen]) -> None:
        """From now on it holds these alone. Raises OSError."""
        write_atomically(self._path, b"".join(_LINE.pack(*each) for each in seen))
