"""Where a request is to go, by its request line and its `Host`."""

import re
from urllib.parse import quote_from_bytes

from msgspec import Struct

from infra.proxy.head import RequestHead
from infra.proxy.names import authority, split_authority
from infra.proxy.port import Refused

HTTP_PORT = 80
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)://")
_PLACE = re.compile(rb"[^/?#]*")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
NO_PROXY_FORM = "this is a proxy: the request line must hold the whole address, http://host/path"


class Target(Struct, frozen=True, kw_only=True):
    host: str
    port: int
    origin: bytes
    """Path and query, as they go on."""

    def path(self) -> str:
        """Without the query."""
        path = self.origin.partition(b"?")[0]
        return path.decode() if path.isascii() else quote_from_bytes(path, safe=_PRINTABLE)

    def authority(self) -> bytes:
        return authority(self.host, self.port, HTTP_PORT).encode()


def absolute(head: RequestHead) -> Target:
    """Of a request to a proxy. Raises `Refused` for every other form, and where `Host` says something else."""
    scheme = _SCHEME.match(head.target)
    if scheme is None:
        raise Refused(NO_PROXY_FORM, 400)
    if scheme[1].lower() != b"http":
        raise Refused("only http:// is taken here; for https:// the client has to use CONNECT", 400)
    found = _PLACE.match(head.target, scheme.end())
    assert found is not None
    place = found[0]
    host, port = split_authority(_text(place), HTTP_PORT)
    agree(head, host, port, HTTP_PORT)
    return Target(host=host, port=port, origin=_origin(head, head.target[scheme.end() + len(place) :]))


def fixed(head: RequestHead, host: str, port: int) -> Target:
    """Of a request within a tunnel. Raises `Refused` where it is addressed to somebody else than the tunnel is."""
    agree(head, host, port, port)
    return Target(host=host, port=port, origin=in_origin_form(head))


def in_origin_form(head: RequestHead) -> bytes:
    if not head.target.startswith(b"/") and not (head.method == "OPTIONS" and head.target == b"*"):
        raise Refused("the request line must hold a path", 400)
    if b"#" in head.target:
        raise Refused("a fragment in the address", 400)
    return head.target


def tunnel(head: RequestHead) -> Target:
    """Of a CONNECT. Raises `Refused`."""
    host, port = split_authority(_text(head.target), None)
    if b"host" in head.fields.hop:
        agree(head, host, port, port)
    if b"content-length" in head.fields.hop or b"transfer-encoding" in head.fields.hop:
        raise Refused("a CONNECT with a body", 400)
    return Target(host=host, port=port, origin=b"")


def agree(head: RequestHead, host: str, port: int, default_port: int) -> None:
    """Raises `Refused` unless `Host` names the same place. Only HTTP/1.0 may leave it out."""
    named = head.fields.one(b"host")
    if named is None:
        if head.minor == 0:
            return
        raise Refused("no Host", 400)
    if split_authority(_text(named), default_port) != (host, port):
        raise Refused("Host does not agree with the address", 400)


def _origin(head: RequestHead, rest: bytes) -> bytes:
    if b"#" in rest:
        raise Refused("a fragment in the address", 400)
    if not rest and head.method == "OPTIONS":
        return b"*"
    return rest if rest.startswith(b"/") else b"/" + rest


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Refused("not a host name", 400) from None
