"""How a secret may be written down: each spelling, and what stands in its place. Pure."""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, quote_plus

import msgspec

SHORTEST = 8
PLAIN = re.compile(r"[a-z_.-]{1,23}\Z")
URL_SAFE = bytes.maketrans(b"+/", b"-_")
_USER_AND_PASSWORD = re.compile(rb"[\x20-\x39\x3b-\x7e]*:([\x20-\x7e]+)\Z")


class Spelling(NamedTuple):
    found: bytes
    mask: bytes
    """Of the same length, so that every offset and total stays true."""


def may_be_masked(value: str) -> bool:
    """Not what is too short, nor a plain word such as `completed`: masking it would spoil the record."""
    return len(value) >= SHORTEST and PLAIN.match(value) is None


def spellings(values: Iterable[str], fill: str = "*") -> tuple[Spelling, ...]:
    """Of all values, the longest first: one may be part of another."""
    texts = dict.fromkeys(text for value in values for text in (*_within(value), value))
    found = {each.found: each for text in texts if may_be_masked(text) for each in _of(text, fill)}
    return tuple(sorted(found.values(), key=lambda each: len(each.found), reverse=True))


def _within(value: str) -> tuple[str, ...]:
    """Of a value for `Basic`: what it is the base64 of, and the password in that. A server may tell either."""
    if not may_be_masked(value):
        return ()
    try:
        raw = base64.b64decode(value.encode(), validate=True)
    except binascii.Error:
        return ()
    found = _USER_AND_PASSWORD.match(raw)
    return (raw.decode(), found[1].decode()) if found else ()


def in_json(spelling: bytes) -> bytes:
    """As it stands between the quotes of a JSON string."""
    return msgspec.json.encode(spelling.decode())[1:-1]


def _of(value: str, fill: str) -> list[Spelling]:
    return [
        *(Spelling(text.encode(), fill.encode() * len(text)) for text in _texts(value)),
        *_base64(value.encode(), fill.encode()),
    ]


def _texts(value: str) -> set[str]:
    quoted = {quote(value, safe=""), quote(value, safe="/"), quote_plus(value)}
    lowered = {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), text) for text in quoted}
    return {value, in_json(value.encode()).decode(), *quoted, *lowered}


def _base64(raw: bytes, fill: bytes) -> list[Spelling]:
    """At each of the three places that it can have in a group: the characters that are its own alone.

    In their place stands the base64 of the mask, so that what is base64 stays base64.
    """
    found = []
    for before in range(3):
        own = slice(-(-before * 8 // 6), (before + len(raw)) * 8 // 6)
        text = base64.b64encode(bytes(before) + raw)[own]
        mask = base64.b64encode(bytes(before) + fill * len(raw))[own]
        found += [Spelling(text, mask), Spelling(text.translate(URL_SAFE), mask)]
    return found
