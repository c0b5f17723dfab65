"""Bytes that somebody asked for a part of, served so that no browser takes them for a page of ours."""

import re
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple
from urllib.parse import quote

from litestar.response import Stream

from contracts.errors import RangeNotSatisfiable
from contracts.http.problems import MEDIA_TYPE, Problem
from services.gateway.routes.answers import answer

OCTETS = "application/octet-stream"
BYTES = {
    206: answer(bytes, "The part that `Range` names.", OCTETS),
    416: answer(Problem, "`Range` begins behind the end.", MEDIA_TYPE),
}
HARMLESS = {
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "private, no-cache",
}
"""What comes from a sandbox is downloaded, never shown: it could be a page with scripts."""
_RANGE = re.compile(r"bytes=(?:(\d{1,16})-(\d{1,16})?|-(\d{1,16}))\s*\Z")

Cut = Callable[[int, int], AsyncIterator[bytes]]
"""The bytes from one offset up to, and without, another."""


class Span(NamedTuple):
    start: int
    end: int
    """Behind the last."""


def wanted(header: str | None, size: int) -> Span | None:
    """None for all of it; also where `Range` is none that we serve, as several at a time, which the RFC allows.

    Raises `RangeNotSatisfiable`.
    """
    asked = None if header is None else _RANGE.match(header)
    if asked is None:
        return None
    first, last, suffix = asked.groups()
    if suffix is not None:
        span = Span(max(size - int(suffix), 0), size)
    else:
        span = Span(int(first), size if last is None else min(int(last) + 1, size))
    if last is not None and int(last) < int(first):
        return None
    if span.start >= span.end:
        raise RangeNotSatisfiable(f"there are {size} bytes", size=str(size))
    return span


def attachment(name: bytes) -> dict[str, str]:
    """`HARMLESS`, under a name for the file. Any bytes will do."""
    text = name.decode("utf-8", "replace").replace("/", "_")[-150:] or "content"
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", text)
    return {
        **HARMLESS,
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(text, safe='')}",
    }


def served(cut: Cut, size: int, header: str | None, headers: dict[str, str]) -> Stream:
    """200 with all of it or 206 with a part, in flat memory. Raises `RangeNotSatisfiable`."""
    part = wanted(header, size)
    span = part or Span(0, size)
    told = {**headers, "accept-ranges": "bytes", "content-length": str(span.end - span.start)}
    if part is not None:
        told["content-range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    return Stream(cut(*span), status_code=200 if part is None else 206, headers=told, media_type=OCTETS)
