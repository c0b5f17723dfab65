"""What a writer in a process of its own is told, and what it answers."""

from msgspec import Struct


class Job(Struct, frozen=True, kw_only=True):
    url: str
    login: str
    password: str
    events: int
    """As fast as they are taken: 64 on their way to a server that is alone, one at a time to a cluster."""
    singles: int
    """One after the other, each waited for."""


class Wrote(Struct, frozen=True, kw_only=True):
    seconds: float
    milliseconds: tuple[float, ...]
