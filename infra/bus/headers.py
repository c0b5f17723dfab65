"""Message headers as the bytes that came over the wire: parsed only where somebody asks."""

import re

_START = b"NATS/1.0"

_VALUE = rb"([^\r\n]*+)\r\n"
STORED = re.compile(
    rb"NATS/1\.0\r\n"
    rb"Nats-Msg-Id: " + _VALUE + rb"(?:Nats-Expected-Last-Subject-Sequence: [0-9]{1,20}\r\n"
    rb"Nats-Expected-Last-Subject-Sequence-Subject: [^\r\n]*+\r\n)?Nats-Stream: [^\r\n]*+\r\n"
    rb"Nats-Subject: " + _VALUE + rb"Nats-Sequence: ([0-9]{1,20})\r\n"
    rb"Nats-Time-Stamp: " + _VALUE + rb"(?:Nats-Num-Pending: [0-9]++\r\n)?(?:Nats-Last-Sequence: [0-9]++\r\n)?\r\n"
)
"""The whole headers of a message that its publisher gave an id, and at most a guard: by far the most. In one pass."""


def status(raw: bytes | None) -> int:
    """The inline status of a server's own message (404, 408, 503 …); 0 where it has none."""
    if not raw or raw[8:9] != b" ":
        return 0
    digits = raw[9:12]
    return int(digits) if digits.isdigit() else 0


def get(raw: bytes | None, name: bytes) -> str | None:
    """The last value of a header. Names are compared as the server writes them.

    The last, because the server puts its own headers after those of the publisher, who may have sent the same name.
    """
    if not raw:
        return None
    start = raw.rfind(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    return raw[start : raw.find(b"\r\n", start)].strip().decode("utf-8", "replace")


def encode(headers: dict[str, str]) -> bytes:
    lines = [_START, *(f"{name}: {value}".encode() for name, value in headers.items())]
    return b"\r\n".join([*lines, b"", b""])
