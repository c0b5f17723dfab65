"""A command's record on disk: frames in segments, named by the position of their first byte."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from infra.durable import write_atomically
from infra.keeper.frame import HEADER_BYTES, STREAMS, Frame, Kind, header_of, is_intact, parse_header
from infra.keeper.outcome import Totals

SEGMENT_BYTES = 64 * 1024 * 1024
_PREFIX = "seg-"
_CARRIED = "carried.json"


class PositionGone(LookupError):
    """The position lies in segments that were confirmed and removed, or in none that ever was."""


class SpoolDamaged(Exception):
    """A frame before the tail fails its checksum: the disk changed what was written."""


class Segment(NamedTuple):
    start: int
    path: Path


def segments(directory: Path) -> list[Segment]:
    found = [path for path in directory.iterdir() if path.name.startswith(_PREFIX)]
    return sorted(Segment(int(path.name.removeprefix(_PREFIX)), path) for path in found)


def _segment_path(directory: Path, start: int) -> Path:
    return directory / f"{_PREFIX}{start:020d}"


class Summary(Struct, kw_only=True):
    """What a record amounts to so far."""

    index: int = 0
    """Of the next frame."""
    totals: dict[str, int] = {}
    exited: bool = False
    """It has an EXIT, LOST or FAILED frame."""
    lost: bool = False
    closed: bool = False

    def add(self, index: int, kind: Kind, end: int) -> None:
        self.index = index + 1
        if kind in STREAMS:
            self.totals[kind.name.lower()] = end
        self.exited = self.exited or kind in (Kind.EXIT, Kind.LOST, Kind.FAILED)
        self.lost = self.lost or kind == Kind.LOST
        self.closed = kind == Kind.CLOSED

    def as_totals(self) -> Totals:
        return Totals(**self.totals)


def frames_in(file: BinaryIO, position: int) -> Iterator[Frame]:
    """The whole frames from where the file stands; stops before the first that is torn or damaged."""
    while (header := parse_header(raw := file.read(HEADER_BYTES))) is not None:
        payload = file.read(header.length)
        if len(payload) < header.length or not is_intact(raw, payload):
            return
        after = position + HEADER_BYTES + header.length
        yield Frame(header.index, Kind(header.kind), header.time_ns, header.offset, payload, position, after)
        position = after


class SpoolReader:
    """Reads a record that another process may still be writing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def frames(self, position: int = 0) -> Iterator[Frame]:
        """Whole frames from `position` to the present end. A tail that is half written is left for later.

        Blocks on disk only. Raises `PositionGone`, `SpoolDamaged`, and FileNotFoundError for an unknown record.
        """
        found = segments(self._directory)
        at = [number for number, each in enumerate(found) if each.start <= position]
        if not at:
            raise PositionGone(f"{self._directory.name} has nothing at {position}")
        for number, segment in enumerate(found[at[-1] :], at[-1]):
            with segment.path.open("rb") as file:
                file.seek(position - segment.start)
                for frame in frames_in(file, position):
                    yield frame
                    position = frame.next_position
            if number + 1 < len(found) and position != found[number + 1].start:
                raise SpoolDamaged(f"{segment.path} is unreadable at {position - segment.start}")


def _stream_of(kind: Kind) -> str:
    """What goes to the command is numbered with stdin."""
    return "stdin" if kind in (Kind.STDIN_EOF, Kind.RESIZE) else kind.name.lower()


class SpoolWriter:
    """Appends frames; continues a record after a crash, without what was half written."""

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Opens the record. Raises OSError where the disk refuses."""
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._wall_clock_ns = wall_clock_ns
        self.summary = Summary()
        self._segments = segments(directory)
        if self._segments:
            self._recover()
        else:
            self._segments = [Segment(0, _segment_path(directory, 0))]
        active = self._segments[-1]
        self._fd = os.open(active.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._written = os.lseek(self._fd, 0, os.SEEK_END)

    @property
    def size(self) -> int:
        """The position of the next frame."""
        return self._segments[-1].start + self._written

    @property
    def first(self) -> int:
        return self._segments[0].start

    def append(self, kind: Kind, payload: bytes = b"") -> None:
        """Adds a frame whole or not at all. Raises OSError where the disk refuses."""
        if self._written >= self._segment_bytes:
            self._begin_segment()
        offset = self.summary.totals.get(_stream_of(kind), 0)
        header = header_of(kind, self.summary.index, self._wall_clock_ns(), offset, payload)
        wanted = len(header) + len(payload)
        try:
            done = os.pwritev(self._fd, [header, payload], self._written)
            if done != wanted:
                raise OSError(f"{done} of {wanted} bytes written")
        except OSError:
            os.ftruncate(self._fd, self._written)
            raise
        self._written += wanted
        self.summary.add(self.summary.index, kind, offset + len(payload))

    def confirm(self, position: int) -> None:
        """Removes whole segments before `position`."""
        going = [
            segment
            for segment, after in zip(self._segments, self._segments[1:], strict=False)
            if after.start <= position
        ]
        if not going:
            return
        # First what they amounted to, or a crash in between would forget it.
        write_atomically(self._directory / _CARRIED, msgspec.json.encode(self.summary))
        for segment in going:
            segment.path.unlink(missing_ok=True)
        self._segments = self._segments[len(going) :]

    def read(self, position: int, size: int) -> bytes:
        """Raises OSError where they are not there."""
        segment = max(each for each in self._segments if each.start <= position)
        with segment.path.open("rb") as file:
            file.seek(position - segment.start)
            found = file.read(size)
        if len(found) != size:
            raise OSError(f"{len(found)} of {size} bytes read")
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _begin_segment(self) -> None:
        segment = Segment(self.size, _segment_path(self._directory, self.size))
        fd = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.close(self._fd)
        self._fd, self._written = fd, 0
        self._segments.append(segment)

    def _recover(self) -> None:
        carried = self._directory / _CARRIED
        if carried.exists():
            self.summary = msgspec.json.decode(carried.read_bytes(), type=Summary)
        for segment in self._segments:
            end = segment.start
            with segment.path.open("rb") as file:
                for frame in frames_in(file, segment.start):
                    self.summary.add(frame.index, frame.kind, frame.offset + len(frame.payload))
                    end = frame.next_position
        os.truncate(self._segments[-1].path, end - self._segments[-1].start)
