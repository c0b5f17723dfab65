"""Events as they are passed on: made ready once, whoever follows."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from infra.bus.gaps import Gap
from infra.bus.page import Entry
from services.gateway import metrics
from services.gateway.live.frames import Problem, encode

OVERHEAD = 400
"""Bytes of memory that an item takes beside its body, about."""
LOG_GAP = "LOG_GAP"

_any_json = msgspec.json.Decoder(msgspec.Raw)


class Item(NamedTuple):
    """Something that a follower is told, in the order of the log."""

    sequence: int
    sandbox: str
    """Empty for what is told to everybody."""
    tag: str
    header: bytes
    """Of the WebSocket frame around the body."""
    body: bytes
    """JSON."""

    @property
    def size(self) -> int:
        return len(self.body) + OVERHEAD


class _Head(Struct, frozen=True, kw_only=True, tag="event"):
    sequence: int
    event_type: str
    sandbox_id: str
    timestamp: str


class _Damaged(_Head, frozen=True, kw_only=True, tag="event"):
    data: None = None
    base64: str
    """What stands in the log, which is no JSON."""


def item_of(entry: Entry) -> Item:
    """The event stands in it byte for byte, as it does in the log."""
    parts = entry.subject.split(".")
    sandbox, tag = parts[2] if len(parts) > 2 else "", ".".join(parts[3:5])
    if _is_json(entry.data):
        head = _Head(sequence=entry.seq, event_type=tag, sandbox_id=sandbox, timestamp=entry.stored_at)
        body = b'%b,"data":%b}' % (encode(head)[:-1], entry.data)
    else:
        # One that cannot be read must not end every connection that comes to it, again and again.
        coded = base64.b64encode(entry.data).decode()
        body = encode(
            _Damaged(sequence=entry.seq, event_type=tag, sandbox_id=sandbox, timestamp=entry.stored_at, base64=coded)
        )
    return Item(entry.seq, sandbox, tag, header_of(len(body)), body)


def gap_item(gap: Gap, told_after: int = 0) -> Item:
    """A gap may be known of only after its place: then it stands with the sequence that it is told after."""
    words = f"the log lacks sequence {gap.first} to {gap.last}: see `cloche audit`"
    body = encode(
        Problem(code=LOG_GAP, message=words, sequence=gap.last, first_sequence=gap.first, last_sequence=gap.last)
    )
    return Item(max(gap.last, told_after), "", "", header_of(len(body)), body)


def sent_items(items: Sequence[Item]) -> None:
    """For the figures."""
    metrics.sent(len(items), sum(len(item.body) for item in items))


def header_of(length: int) -> bytes:
    """Of a whole text frame from a server (RFC 6455, section 5.2)."""
    if length < 126:
        return bytes((0x81, length))
    if length < 1 << 16:
        return b"\x81\x7e" + length.to_bytes(2, "big")
    return b"\x81\x7f" + length.to_bytes(8, "big")


def _is_json(data: bytes) -> bool:
    try:
        if not data.isascii():
            data.decode()
        _any_json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
