"""Bytes in JSON: text where they are valid UTF-8, base64 where they are not."""

import base64
from enum import StrEnum
from typing import NamedTuple

from contracts.errors import Invalid


class Encoding(StrEnum):
    UTF8 = "utf-8"
    BASE64 = "base64"


class Payload(NamedTuple):
    data: str
    encoding: Encoding


def pack(raw: bytes) -> Payload:
    try:
        return Payload(raw.decode(), Encoding.UTF8)
    except UnicodeDecodeError:
        return pack_base64(raw)


def pack_base64(raw: bytes) -> Payload:
    return Payload(base64.b64encode(raw).decode(), Encoding.BASE64)


def unpack(data: str, encoding: Encoding) -> bytes:
    """Raises `Invalid` when `data` is not base64 though it says so, or holds a lone surrogate."""
    try:
        return data.encode() if encoding == Encoding.UTF8 else base64.b64decode(data, validate=True)
    except ValueError as error:
        raise Invalid(f"data is not {encoding}: {error}") from error
