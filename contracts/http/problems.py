"""Errors over HTTP: RFC 9457, with the stable codes of `contracts.errors`."""

from msgspec import Struct

MEDIA_TYPE = "application/problem+json"


class Problem(Struct, frozen=True, kw_only=True):
    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    retryable: bool = False
    details: dict[str, str] = {}
    instance: str | None = None
    """The path that was asked for."""
