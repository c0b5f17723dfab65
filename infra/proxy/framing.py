"""Where the body of a message ends."""

import re
from typing import Protocol

from infra.proxy.head import Field, Fields, RequestHead, ResponseHead, read_fields
from infra.proxy.limits import HEAD_BYTES
from infra.proxy.port import Refused

_LENGTH = re.compile(rb"0|[1-9]\d{0,17}")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e]*)?")
LONGEST_SIZE_LINE = 1024
MOST_AT_ONCE = 1000
FRAMING = frozenset((b"content-length", b"transfer-encoding", b"trailer", b"host", b"connection", b"upgrade", b"te"))
"""Never taken from a trailer."""


class Body(Protocol):
    done: bool
    rest: bytes
    """What came after its end."""
    behind: bool
    """There was too much in it for one time: fed with nothing, it goes on."""

    def feed(self, data: bytes) -> bytes:
        """The payload in it. Raises `Refused` for what cannot be read in one way only."""
        ...

    def at_end(self) -> None:
        """Nothing more comes. Raises `Refused` where something is missing."""
        ...


class Sized:
    """So many bytes."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.done = length == 0
        self.rest = b""
        self.behind = False
        self._missing = length

    def feed(self, data: bytes) -> bytes:
        self._missing -= len(data)
        if self._missing > 0:
            return data
        self.done = True
        if self._missing == 0:
            return data
        self.rest = data[self._missing :]
        return data[: self._missing]

    def at_end(self) -> None:
        if not self.done:
            raise Refused("the body ended too early", 400)


class Endless:
    """Until the connection is closed."""

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self.behind = False

    def feed(self, data: bytes) -> bytes:
        return data

    def at_end(self) -> None:
        self.done = True


class Chunked:
    """In chunks, each with its size before it; then trailers."""

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self.behind = False
        self.trailers: list[Field] = []
        self._held = b""
        self._missing = 0
        self._next = self._size
        """Reads what stands at a place, and gives the place after it; None where more has to come first."""

    def feed(self, data: bytes) -> bytes:
        data, self._held = self._held + data if self._held else data, b""
        pieces: list[bytes] = []
        at = 0
        self.behind = False
        while at < len(data) and not self.done:
            if len(pieces) == MOST_AT_ONCE:
                # A storm of tiny chunks must not keep everybody else waiting.
                self.behind = True
                break
            if self._missing:
                piece = data[at : at + self._missing]
                pieces.append(piece)
                self._missing -= len(piece)
                at += len(piece)
            elif (after := self._next(data, at)) is None:
                break
            else:
                at = after
        self._keep(data[at:])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def at_end(self) -> None:
        if not self.done:
            raise Refused("the body ended too early", 400)

    def _keep(self, data: bytes) -> None:
        if self.done:
            self.rest = data
        else:
            self._held = data

    def _size(self, data: bytes, at: int) -> int | None:
        end = data.find(b"\r\n", at, at + LONGEST_SIZE_LINE)
        line = data[at:end] if end >= 0 else data[at : at + LONGEST_SIZE_LINE]
        if end < 0 and len(line) < LONGEST_SIZE_LINE and _may_become_size(line):
            return None
        match = _SIZE.fullmatch(line)
        if end < 0 or match is None:
            raise Refused("not the size of a chunk", 400)
        self._missing = int(match[1], 16)
        self._next = self._end_of_chunk if self._missing else self._trailers
        return end + 2

    def _end_of_chunk(self, data: bytes, at: int) -> int | None:
        ends = data[at : at + 2]
        if not b"\r\n".startswith(ends):
            raise Refused("a chunk does not end where its size says", 400)
        if len(ends) < 2:
            return None
        self._next = self._size
        return at + 2

    def _trailers(self, data: bytes, at: int) -> int | None:
        if data.startswith(b"\r\n", at):
            self.done = True
            return at + 2
        end = data.find(b"\r\n\r\n", at)
        if (end if end >= 0 else len(data)) - at > HEAD_BYTES:
            raise Refused("the trailers are too large", 431)
        if end < 0:
            return None
        self.trailers = read_fields(data[at:end], FRAMING).all
        self.done = True
        return end + 4


def _may_become_size(line: bytes) -> bool:
    """So that nothing is waited for that can no longer be right."""
    return _SIZE.fullmatch(line.removesuffix(b"\r") or b"0") is not None


def body_of_request(head: RequestHead) -> Sized | Chunked:
    """Raises `Refused`."""
    return _stated(head.fields, head.minor) or Sized(0)


def body_of_response(head: ResponseHead, method: str) -> Sized | Chunked | Endless:
    """Raises `Refused`."""
    stated = _stated(head.fields, head.minor)
    if method == "HEAD" or head.status < 200 or head.status in (204, 304):
        return Sized(0)
    return stated or Endless()


def _stated(fields: Fields, minor: int) -> Sized | Chunked | None:
    encoding = fields.one(b"transfer-encoding")
    length = fields.one(b"content-length")
    if encoding is not None:
        if length is not None:
            raise Refused("both a length and a transfer encoding", 400)
        if encoding.lower() != b"chunked" or minor == 0:
            raise Refused("a transfer encoding that is not just chunked", 400)
        return Chunked()
    if length is None:
        return None
    if _LENGTH.fullmatch(length) is None:
        raise Refused("not a length", 400)
    return Sized(int(length))


def chunk(payload: bytes) -> bytes:
    """As it goes on: never empty, as that would be the end."""
    return b"%x\r\n%b\r\n" % (len(payload), payload) if payload else b""


def last_chunk(trailers: list[Field]) -> bytes:
    if not trailers:
        return b"0\r\n\r\n"
    return b"0\r\n" + b"".join([b"%b: %b\r\n" % (each.name, each.value) for each in trailers]) + b"\r\n"
