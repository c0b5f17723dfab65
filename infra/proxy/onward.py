"""The head of a request as it goes on: built from what was read, without what is between the client and us only."""

from collections.abc import Sequence

from infra.proxy.exchange import Request
from infra.proxy.framing import Chunked, Sized
from infra.proxy.head import Field, RequestHead
from infra.proxy.port import Refused


def onward(
    head: RequestHead, origin: bytes, authority: bytes, body: Sized | Chunked, fields: Sequence[Field] | None = None
) -> Request:
    """`fields` in the place of the client's own. Raises `Refused` for an expectation that is not known."""
    nominated = head.fields.connection()
    upgrade = body.done and _wants_websocket(head, nominated)
    lines = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (head.method.encode(), origin, authority)]
    lines += [b"%b: %b\r\n" % (field.name, field.value) for field in (head.fields.all if fields is None else fields)]
    lines += _framing(head, body)
    lines += _expectation(head)
    if upgrade:
        lines.append(b"Connection: Upgrade\r\nUpgrade: websocket\r\n")
    lines.append(b"\r\n")
    return Request(
        method=head.method,
        minor=head.minor,
        head=b"".join(lines),
        body=body,
        keep=_keeps(head, nominated),
        upgrade=upgrade,
    )


def _framing(head: RequestHead, body: Sized | Chunked) -> list[bytes]:
    if isinstance(body, Chunked):
        return [b"Transfer-Encoding: chunked\r\n"]
    if b"content-length" in head.fields.hop:
        return [b"Content-Length: %d\r\n" % body.length]
    return []


def _expectation(head: RequestHead) -> list[bytes]:
    expected = head.fields.one(b"expect")
    if expected is None or head.minor == 0:
        return []
    if expected.lower() != b"100-continue":
        raise Refused("an expectation that is not 100-continue", 417)
    return [b"Expect: 100-continue\r\n"]


def _keeps(head: RequestHead, nominated: list[bytes]) -> bool:
    if head.minor == 1:
        return b"close" not in nominated
    asked = nominated + [value.lower() for value in head.fields.hop.get(b"proxy-connection", [])]
    return b"keep-alive" in asked


def _wants_websocket(head: RequestHead, nominated: list[bytes]) -> bool:
    if b"upgrade" not in nominated or head.minor == 0 or head.method != "GET":
        return False
    return head.fields.one(b"upgrade") is not None and head.fields.hop[b"upgrade"][0].lower() == b"websocket"
