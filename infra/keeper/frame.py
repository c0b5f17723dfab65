"""One entry of a command's record, as bytes on disk."""

import struct
import zlib
from enum import IntEnum

from msgspec import Struct

MAX_PAYLOAD = 64 * 1024
_HEADER = struct.Struct(">IB3xQQQ")
_CRC = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _CRC.size


class Kind(IntEnum):
    STDIN = 0
    STDOUT = 1
    STDERR = 2
    PTY = 3
    EXIT = 4
    """The real end of the main process: `outcome.Exit`."""
    CLOSED = 5
    """All streams are at their end; nothing follows."""
    LOST = 6
    """The end could not be seen: `outcome.Lost`."""
    FAILED = 7
    """The command never began: `outcome.Failed`."""
    STDIN_EOF = 8
    RESIZE = 9


_KINDS = frozenset(int(kind) for kind in Kind)
STREAMS = frozenset({Kind.STDIN, Kind.STDOUT, Kind.STDERR, Kind.PTY})


class Frame(Struct, frozen=True):
    index: int
    """0, 1, 2 …: never changes, so that the id of an event can be made from it."""
    kind: Kind
    time_ns: int
    offset: int
    """Bytes of the same stream before this frame."""
    payload: bytes
    position: int
    next_position: int


class Header(Struct, frozen=True):
    length: int
    kind: int
    index: int
    time_ns: int
    offset: int
    crc: int


def header_of(kind: Kind, index: int, time_ns: int, offset: int, payload: bytes) -> bytes:
    head = _HEADER.pack(len(payload), kind, index, time_ns, offset)
    return head + _CRC.pack(zlib.crc32(payload, zlib.crc32(head)))


def parse_header(raw: bytes) -> Header | None:
    """None where the bytes cannot be a header: torn or damaged."""
    if len(raw) < HEADER_BYTES:
        return None
    header = Header(*_HEADER.unpack_from(raw), *_CRC.unpack_from(raw, _HEADER.size))
    return header if header.length <= MAX_PAYLOAD and header.kind in _KINDS else None


def is_intact(raw_header: bytes, payload: bytes) -> bool:
    (crc,) = _CRC.unpack_from(raw_header, _HEADER.size)
    return bool(zlib.crc32(payload, zlib.crc32(raw_header[: _HEADER.size])) == crc)
