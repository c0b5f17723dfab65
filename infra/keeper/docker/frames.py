"""The engine's way of sending two streams over one connection: 8 bytes of header, then a part of one stream."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

STDOUT, STDERR = 1, 2
_HEADER = struct.Struct(">BxxxL")


class Part(NamedTuple):
    stream: int
    data: memoryview


class Demultiplexer:
    """Takes bytes as they come, cut anywhere. With a terminal there is one stream, and no headers."""

    def __init__(self, *, framed: bool = True) -> None:
        self._framed = framed
        self._header = bytearray()
        self._stream = STDOUT
        self._left = 0

    def feed(self, data: memoryview) -> Iterator[Part]:
        """The parts are views of `data`. To be read to the end before more is fed."""
        if not self._framed:
            yield Part(STDOUT, data)
            return
        while data:
            if self._left:
                yield Part(self._stream, data[: self._left])
                taken = min(self._left, len(data))
                self._left -= taken
                data = data[taken:]
            else:
                data = self._take_header(data)

    def _take_header(self, data: memoryview) -> memoryview:
        missing = _HEADER.size - len(self._header)
        self._header += data[:missing]
        if len(self._header) == _HEADER.size:
            self._stream, self._left = _HEADER.unpack(self._header)
            self._header.clear()
        return data[missing:]
