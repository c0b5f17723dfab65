"""Snapshots as files: derived and disposable. Whatever happens to them, the log answers, only slower."""

import contextlib
import hashlib
import logging
import os
import shutil
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

DIGEST_BYTES = 32
MOST_BYTES = 64 << 20
"""Of one snapshot, unpacked."""
ROOM_MADE = 0.9
"""What is left of the bound once it was reached."""
FRESH = ".new"


class Found(NamedTuple):
    sequence: int
    content: bytes


class SnapshotStore:
    """`<directory>/<version>/<name>/<sequence>`, each with its sha256.

    Names must be tokens. May be used by several threads and processes. Nothing here raises for what the disk does: a
    snapshot that cannot be written is not there, one that cannot be read, or is damaged, is removed.
    """

    def __init__(self, directory: Path, version: str, *, max_bytes: int) -> None:
        self._all = directory
        self._place = directory / version
        self._max_bytes = max_bytes
        self._bytes: int | None = None
        self._complained = False
        self._lock = threading.Lock()

    def sequences(self, name: str) -> list[int]:
        """Of the snapshots that there are, oldest first."""
        try:
            with os.scandir(self._place / name) as entries:
                return sorted(int(each.name) for each in entries if each.name.isascii() and each.name.isdigit())
        except OSError:
            return []

    def nearest(self, name: str, at: int) -> Found | None:
        """The newest that is not later than `at`, and whole."""
        for sequence in reversed(self.sequences(name)):
            if sequence <= at and (content := self._read(self._place / name / str(sequence))) is not None:
                return Found(sequence, content)
        return None

    def _read(self, path: Path) -> bytes | None:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raw = b""
        content = _unpacked(raw)
        with contextlib.suppress(OSError):
            if content is None:
                path.unlink()
            else:
                # Its time says when it was last of use.
                os.utime(path)
        return content

    def write(self, name: str, sequence: int, content: bytes) -> bool:
        """Whether it is kept. The oldest make room."""
        packed = zlib.compress(content, 1)
        path = self._place / name / str(sequence)
        fresh = path.with_name(f"{sequence}.{os.getpid()}.{threading.get_ident()}{FRESH}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_bytes(hashlib.sha256(packed).digest() + packed)
            fresh.rename(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            self._complain(error)
            return False
        self._count(len(packed) + DIGEST_BYTES)
        return True

    def forget(self, name: str, sequence: int | None = None) -> None:
        """One, or all of that name."""
        if sequence is None:
            shutil.rmtree(self._place / name, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                (self._place / name / str(sequence)).unlink()

    def clear(self) -> None:
        """All of them, of every version."""
        shutil.rmtree(self._all, ignore_errors=True)
        with self._lock:
            self._bytes = 0

    def clear_others(self) -> None:
        """Those that other versions have left."""
        with contextlib.suppress(OSError):
            for each in self._all.iterdir():
                if each.name != self._place.name:
                    shutil.rmtree(each, ignore_errors=True)

    def _count(self, added: int) -> None:
        with self._lock:
            if self._bytes is None:
                self._bytes = sum(size for _, size, _ in self._files())
            else:
                self._bytes += added
            if self._bytes > self._max_bytes:
                self._bytes = self._make_room()

    def _make_room(self) -> int:
        files = sorted(self._files())
        left = sum(size for _, size, _ in files)
        for _, size, path in files:
            if left <= self._max_bytes * ROOM_MADE:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                left -= size
        return left

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """When each was last used, its size, and where it is; also what a crash left half written."""
        for place, _, names in os.walk(self._all):
            for name in names:
                path = Path(place) / name
                with contextlib.suppress(OSError):
                    found = path.stat()
                    yield found.st_mtime, found.st_size, path

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            logger.warning("snapshots cannot be kept in %s, so the past is told more slowly: %s", self._all, error)


def _unpacked(raw: bytes) -> bytes | None:
    digest, packed = raw[:DIGEST_BYTES], raw[DIGEST_BYTES:]
    if len(digest) != DIGEST_BYTES or hashlib.sha256(packed).digest() != digest:
        return None
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, MOST_BYTES)
    except zlib.error:
        return None
    return content if unpacker.eof else None
