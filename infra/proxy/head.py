"""The heads of HTTP/1 messages, read in the one way that every reader agrees on, or refused.

What goes on is built anew from what was read here; the sender's own bytes never are.
"""

import re

from msgspec import Struct

from infra.proxy.limits import HEAD_BYTES, HEAD_FIELDS
from infra.proxy.port import Refused

END = b"\r\n\r\n"
LONGEST_METHOD = 32
TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_FIELDS = re.compile(rb"(?:" + TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+")
_REQUEST = re.compile(rb"(" + TOKEN + rb"+) ([\x21-\x7e\x80-\xff]+) HTTP/(\d)\.(\d)")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?")
BARE = re.compile(rb"\r(?!\n|\Z)|(?<!\r)\n")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

HOP = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade",
     b"proxy-authorization", b"proxy-authenticate", b"proxy-authentication-info", b"content-length")
)  # fmt: skip
"""Between two neighbours only. The length is one of them here, as it is stated anew together with the encoding."""
NEVER_NOMINATED = frozenset((b"host", b"content-length", b"transfer-encoding"))


class Field(Struct, frozen=True):
    name: bytes
    lower: bytes
    value: bytes


class Fields(Struct, frozen=True):
    all: list[Field]
    """Those that go on to the other side, in their order."""
    hop: dict[bytes, list[bytes]]
    """Values of those that do not, and of `host`, by their name in lower case."""

    def one(self, name: bytes) -> bytes | None:
        """Raises `Refused` for more than one."""
        values = self.hop.get(name)
        if values is None:
            return None
        if len(values) != 1:
            raise Refused(f"more than one {name.decode()}", 400)
        return values[0]

    def connection(self) -> list[bytes]:
        """What is nominated, in lower case."""
        values = self.hop.get(b"connection")
        if values is None:
            return []
        return [each.strip(b" \t").lower() for each in b",".join(values).split(b",")]


class RequestHead(Struct, frozen=True, kw_only=True):
    method: str
    target: bytes
    minor: int
    """Of the version: 0 or 1."""
    fields: Fields


class ResponseHead(Struct, frozen=True, kw_only=True):
    status: int
    reason: bytes
    minor: int
    fields: Fields


def read_request(raw: bytes) -> RequestHead:
    """Of the bytes up to the empty line. Raises `Refused`."""
    line, _, rest = raw.partition(b"\r\n")
    match = _REQUEST.fullmatch(line)
    if match is None or len(match[1]) > LONGEST_METHOD:
        raise Refused(_why_not(raw, "not a request line"), 400)
    if match[3] != b"1" or match[4] not in (b"0", b"1"):
        raise Refused("only HTTP/1.0 and HTTP/1.1 are spoken", 505)
    return RequestHead(
        method=match[1].decode(), target=match[2], minor=int(match[4]), fields=read_fields(rest, REQUEST_KEPT)
    )


def read_response(raw: bytes) -> ResponseHead:
    """Of the bytes up to the empty line. Raises `Refused`."""
    line, _, rest = raw.partition(b"\r\n")
    match = _STATUS.fullmatch(line)
    if match is None:
        raise Refused(_why_not(raw, "not a status line"), 502)
    return ResponseHead(
        status=int(match[2]), reason=match[3] or b"", minor=int(match[1]), fields=read_fields(rest, RESPONSE_KEPT)
    )


REQUEST_KEPT = HOP | {b"host", b"expect"}
RESPONSE_KEPT = HOP


def read_fields(raw: bytes, kept: frozenset[bytes]) -> Fields:
    """`raw` without the line end of its last line. Names in `kept` do not go on. Raises `Refused`."""
    if not raw:
        return Fields([], {})
    if _FIELDS.fullmatch(raw + b"\r\n") is None:
        raise Refused(_why_not(raw, "not a header field"), 400)
    lines = raw.split(b"\r\n")
    if len(lines) > HEAD_FIELDS:
        raise Refused(f"more than {HEAD_FIELDS} header fields", 431)
    return _sorted(lines, kept)


def _sorted(lines: list[bytes], kept: frozenset[bytes]) -> Fields:
    onward: list[Field] = []
    hop: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        lower, value = name.lower(), value.strip(b" \t")
        if lower in kept:
            hop.setdefault(lower, []).append(value)
        else:
            onward.append(Field(name, lower, value))
    fields = Fields(onward, hop)
    return fields if b"connection" not in hop else _without_nominated(fields)


def _without_nominated(fields: Fields) -> Fields:
    nominated = fields.connection()
    if not NEVER_NOMINATED.isdisjoint(nominated):
        raise Refused("a field that frames or addresses the message is nominated by Connection", 400)
    return Fields([field for field in fields.all if field.lower not in nominated], fields.hop)


def _why_not(raw: bytes, otherwise: str) -> str:
    if BARE.search(raw):
        return "a line end that is not CR LF"
    if _CONTROL.search(raw):
        return "a control character in the head"
    for line in raw.split(b"\r\n")[1:]:
        if line.startswith((b" ", b"\t")):
            return "a folded header field"
        if re.match(TOKEN + rb"+[ \t]+:", line):
            return "a space before the colon of a header field"
    return otherwise


def too_large() -> Refused:
    return Refused(f"the head is larger than {HEAD_BYTES} bytes", 431)
