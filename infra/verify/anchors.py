"""Checkpoints that were kept outside of a log, from their files."""

import functools
import io
import os
import shutil
import stat
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from contracts import anchoring
from contracts.anchoring import Kept
from contracts.audits import Anchor
from contracts.chain import anchor
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint
from contracts.message import Time

MOST_LINE_BYTES = 4 * 1024 * 1024
_MOST = 2**64 - 1


class _Whole(Struct, frozen=True, kw_only=True):
    """As the node keeps them, with all that they list."""

    checkpoint: AuditCheckpoint
    time: Time


T = TypeVar("T")
_anchors = msgspec.json.Decoder(Anchor)
_wholes = msgspec.json.Decoder(_Whole)


def read(file: Path) -> "AnchorFile":
    """One for each line: anchors, or the node's own record of its checkpoints. All of them stay in the file.

    Lines that are neither, as the first one of a log in which something else is written too, or a last one that a crash
    has left half written, are passed over. What is added later is not read. Raises `Invalid` for a file that cannot be
    read, or has no anchor at all.
    """
    try:
        found = AnchorFile(file)
    except OSError as error:
        raise Invalid(f"cannot read the anchors in {file}: {error.strerror}") from error
    if not found.count:
        # Also where it is empty: whoever names it expects something of it.
        raise Invalid(f"{file} has no anchor in it: one JSON object a line, as `audit.anchors` writes them")
    return found


class AnchorFile:
    """Those of one file in the order of the log, however they stand in it, each decoded when it is its turn.

    Nothing is held of them where they stand in that order, else 8 bytes of each (and some 100 while they are sorted).
    Another file may take its place meanwhile: what was there is read. Iterating raises `Invalid` where it was changed.
    """

    def __init__(self, file: Path) -> None:
        """Raises OSError."""
        self._file = file
        self._fd = _opened(file)
        # It goes from hand to hand within a `Trust`, and nobody's turn is the last.
        weakref.finalize(self, os.close, self._fd)
        self._end = os.fstat(self._fd).st_size
        self.count = 0
        self._order: array[int] | None = None
        if not self._is_in_order():
            self._order = self._sorted()

    def __iter__(self) -> Iterator[Kept]:
        count = 0
        for kept in self._kept(self._lines() if self._order is None else self._lines_at(self._order)):
            yield kept
            count += 1
        if count != self.count:
            raise Invalid(f"{self._file} was changed while it was read")

    def _is_in_order(self) -> bool:
        is_in_order, before = True, (0, 0)
        for kept in self._kept(self._lines()):
            place = anchoring.place_of(kept)
            is_in_order, before = is_in_order and before <= place, place
            self.count += 1
        return is_in_order

    def _sorted(self) -> "array[int]":
        """Where the lines begin, in the order of the log."""
        lasts, firsts, offsets = array("Q"), array("Q"), array("Q")
        for at, line in self._lines():
            if (said := _said(line)) is not None:
                lasts.append(min(max(said.last_sequence, 0), _MOST))
                firsts.append(min(max(said.first_sequence, 0), _MOST))
                offsets.append(at)
        order = sorted(range(len(offsets)), key=firsts.__getitem__)
        order.sort(key=lasts.__getitem__)
        return array("Q", (offsets[number] for number in order))

    def _kept(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Kept]:
        for at, line in lines:
            if (said := _said(line)) is not None:
                leaves = None if _is_bare(line) else functools.partial(self._leaves, at)
                yield Kept(said, leaves)

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """With where they begin. What is longer than any of ours comes in pieces, none of which is an anchor."""
        stream, at = self._from(0), 0
        while line := stream.readline(MOST_LINE_BYTES):
            yield at, line
            at += len(line)

    def _lines_at(self, places: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        return ((at, self._line(at)) for at in places)

    def _line(self, at: int) -> bytes:
        return self._from(at).readline(MOST_LINE_BYTES)

    def _from(self, at: int) -> io.BufferedReader:
        return io.BufferedReader(_Part(self._fd, at, self._end))

    def _leaves(self, at: int) -> str:
        """Raises `Invalid` if they are not there any more."""
        whole = _decoded(_wholes, self._line(at))
        if whole is None:
            raise Invalid(f"{self._file} was changed while it was read")
        return whole.checkpoint.leaves


class _Part(io.RawIOBase):
    """Of an open file, with a place of its own. What the disk cannot read is `Invalid`."""

    def __init__(self, fd: int, at: int, end: int) -> None:
        super().__init__()
        self._fd, self._at, self._end = fd, at, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined]
        view = memoryview(buffer)
        try:
            data = os.pread(self._fd, min(len(view), self._end - self._at), self._at)
        except OSError as error:
            raise Invalid(f"cannot read the anchors: {error.strerror}") from error
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def _opened(file: Path) -> int:
    """What can be read only once, such as a pipe, is kept on the disk first."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    with os.fdopen(fd, "rb") as once, tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(once, copy)
        copy.flush()
        return os.dup(copy.fileno())


def _is_bare(line: bytes) -> bool:
    return b'"leaves_sha256"' in line


def _said(line: bytes) -> Anchor | None:
    if _is_bare(line):
        return _decoded(_anchors, line)
    whole = _decoded(_wholes, line)
    return None if whole is None else anchor(whole.checkpoint, whole.time)


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T | None:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
