"""The checkpoints as they are kept outside the store, whole and in the order in which they were written."""

import errno
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from contracts.events.audit import AuditCheckpoint
from contracts.message import Time
from infra.durable import sync_directory

FILE = "checkpoints.jsonl"
BLOCK = 256 * 1024
LONGEST_LINE = 4 * 1024 * 1024
_NEWLINE = b"\n"


class Kept(Struct, frozen=True, kw_only=True):
    sequence: int
    """Of the checkpoint itself in the log."""
    time: Time
    checkpoint: AuditCheckpoint


class Placed(NamedTuple):
    kept: Kept
    end: int
    """Where the next line begins."""


class Held(NamedTuple):
    kept: Kept
    place: int
    """Of its line, for `Record.at`: it stays the same when the record is trimmed."""


class Record:
    """One that continues an earlier one takes the place of all that came after that: the log was cut, and went on.

    A last line that a crash left half written is not read, and is written over.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self.generation = 0
        """Grows whenever places in the file become others: not while `lock` is held."""
        self.lock = threading.Lock()
        self._trimmed = 0
        """Bytes that were taken off the beginning of the file since we have it."""

    def append(self, kept: Kept) -> None:
        """On the disk when this returns. Raises OSError."""
        fresh = not self._path.exists()
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            file.seek(_end_of_whole(file))
            file.truncate()
            file.write(msgspec.json.encode(kept) + _NEWLINE)
            file.flush()
            os.fsync(fd)
        if fresh:
            sync_directory(self._path.parent)

    def lines(self, start: int = 0) -> Iterator[Placed]:
        """From a place on, in the order of writing; lines that cannot be read are left out. Raises OSError."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(start)
            while line := file.readline(LONGEST_LINE):
                if line.endswith(_NEWLINE) and (kept := _decode(line)) is not None:
                    yield Placed(kept, file.tell())

    def backwards(self) -> Iterator[Kept]:
        """The newest first. Raises OSError."""
        return (held.kept for held in self._backwards())

    def _backwards(self) -> Iterator[Held]:
        with self.lock:
            trimmed, file = self._trimmed, _open(self._path)
        if file is None:
            return
        with file:
            for at, line in _lines_backwards(file):
                if (kept := _decode(line)) is not None:
                    yield Held(kept, trimmed + at)

    def last(self) -> Kept | None:
        """Raises OSError."""
        return next(self.backwards(), None)

    def current(self) -> Iterator[Kept]:
        """Those that were not replaced, the newest first. Raises OSError."""
        return (held.kept for held in self.places())

    def places(self) -> Iterator[Held]:
        """As `current`, with where each is to be found again."""
        first: int | None = None
        for held in self._backwards():
            if first is None or held.kept.checkpoint.last_sequence < first:
                yield held
                first = held.kept.checkpoint.first_sequence

    def at(self, place: int) -> Kept | None:
        """None where the record was trimmed of it. Raises OSError, also where something else stands there."""
        with self.lock:
            if place < self._trimmed:
                return None
            with self._path.open("rb") as file:
                file.seek(place - self._trimmed)
                line = file.readline(LONGEST_LINE)
        if (kept := _decode(line)) is None:
            raise OSError(errno.EIO, "the record of checkpoints was changed by somebody else", str(self._path))
        return kept

    def trim(self, first: int) -> bool:
        """Forget what covers only sequences before `first`, but for the newest of them, which the next continues.

        Does nothing, and says so, as long as that is less than half of it. Raises OSError.
        """
        start = size = 0
        for kept, end in self.lines():
            if kept.checkpoint.last_sequence < first:
                start, size = size, end
            else:
                break
        if not start or start < self._path.stat().st_size // 2:
            return False
        with self.lock:
            self._drop(start)
            self._trimmed += start
            self.generation += 1
        return True

    def _drop(self, start: int) -> None:
        fresh = self._path.with_name(f"{FILE}.new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with self._path.open("rb") as old, os.fdopen(fd, "wb") as new:
            old.seek(start)
            while block := old.read(BLOCK):
                new.write(block)
            new.flush()
            os.fsync(fd)
        fresh.replace(self._path)
        sync_directory(self._path.parent)


def _decode(line: bytes) -> Kept | None:
    try:
        return msgspec.json.decode(line, type=Kept)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _end_of_whole(file: io.BufferedRandom) -> int:
    """Where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(_NEWLINE)
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _open(path: Path) -> io.BufferedReader | None:
    """None where it is not there."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _lines_backwards(file: io.BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Whole lines, the last first, with where they begin."""
    at = file.seek(0, os.SEEK_END)
    rest = b""
    whole = False
    while at:
        size = min(BLOCK, at)
        at -= size
        file.seek(at)
        pieces = (file.read(size) + rest).split(_NEWLINE)
        rest = pieces[0]
        begins = at + sum(len(piece) + 1 for piece in pieces)
        for piece in reversed(pieces[1:]):
            begins -= len(piece) + 1
            if whole and piece:
                yield begins, piece
            whole = True
    if whole and rest:
        yield 0, rest
