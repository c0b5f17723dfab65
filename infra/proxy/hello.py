"""The first message of TLS, read for the name in it."""

from msgspec import Struct

from infra.proxy.port import Refused

HANDSHAKE = 22
HELLO = bytes((HANDSHAKE,))
"""How it begins."""
CLIENT_HELLO = 1
SERVER_NAME = 0
HOST_NAME = 0
LARGEST_RECORD = 16_384
LARGEST_HELLO = 65_536
MOST_RECORDS = 1024
ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"
"""The alert that a client gets in the place of an answer."""


class Hello(Struct, frozen=True):
    name: str | None
    """In lower case. None where the client names nobody."""


class HelloReader:
    """Fed with all that came so far, each time; what it has seen it does not look at again."""

    def __init__(self) -> None:
        self._at = 0
        self._records = 0
        self._message = bytearray()

    def read(self, data: bytes) -> Hello | None:
        """None while there is not enough of it. Raises `Refused` for what is no hello, or one too large."""
        while len(data) - self._at >= 5:
            record = _Cursor(data[self._at : self._at + 5])
            kind, major, _, length = record.number(1), record.number(1), record.number(1), record.number(2)
            if kind != HANDSHAKE or major != 3 or not 0 < length <= LARGEST_RECORD or self._records >= MOST_RECORDS:
                raise Refused("not the hello of a TLS client")
            if len(data) - self._at - 5 < length:
                return None
            self._message += data[self._at + 5 : self._at + 5 + length]
            self._at += 5 + length
            self._records += 1
            if (size := self._size()) is not None and len(self._message) >= size:
                return self._hello(size)
        return None

    def _size(self) -> int | None:
        if self._message[0] != CLIENT_HELLO:
            raise Refused("not the hello of a TLS client")
        if len(self._message) < 4:
            return None
        size = 4 + int.from_bytes(self._message[1:4])
        if size > LARGEST_HELLO:
            raise Refused("the hello of the TLS client is too large")
        return size

    def _hello(self, size: int) -> Hello:
        if len(self._message) != size:
            raise Refused("something after the hello of the TLS client")
        return Hello(_name(bytes(self._message[4:])))


class _Cursor:
    """Raises `Refused` for reading beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise Refused("the hello of the TLS client is malformed")
        self._at += count
        return taken

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def part(self, width: int) -> "_Cursor":
        return _Cursor(self.take(self.number(width)))

    def left(self) -> int:
        return len(self._data) - self._at

    def rest(self) -> bytes:
        return self.take(self.left())


def _name(body: bytes) -> str | None:
    hello = _Cursor(body)
    hello.take(2 + 32)
    hello.part(1)
    hello.part(2)
    hello.part(1)
    if not hello.left():
        return None
    extensions = hello.part(2)
    if hello.left():
        raise Refused("the hello of the TLS client is malformed")
    return _server_name(extensions)


def _server_name(extensions: _Cursor) -> str | None:
    seen: set[int] = set()
    name: str | None = None
    while extensions.left():
        kind, content = extensions.number(2), extensions.part(2)
        if kind in seen:
            raise Refused("the hello of the TLS client says something twice")
        seen.add(kind)
        if kind == SERVER_NAME:
            name = _host_name(content)
    return name


def _host_name(content: _Cursor) -> str:
    names = content.part(2)
    kind, name = names.number(1), names.part(2).rest()
    if kind != HOST_NAME or names.left() or content.left() or not name or not name.isascii():
        raise Refused("the name in the hello of the TLS client is malformed")
    return name.decode().lower()
