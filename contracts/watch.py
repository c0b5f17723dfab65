"""Requests to the file watcher on `cloche.rpc.<node>.<sandbox>.watch.<verb>`, and their answers."""

from msgspec import Struct

from contracts.message import Order


class Flush(Order, frozen=True, kw_only=True):
    """Put everything that is on disk now into the log."""

    manifest: bool = False
    """Also store a manifest of the whole tree and tell it as `file.manifest`."""
    final: bool = False
    """The workspace is about to be removed: what happens to it from now on is not told."""


class Flushed(Struct, frozen=True, kw_only=True):
    sequence: int
    """What was on disk when it was asked is in the log at or before this."""
    manifest: str | None = None
    """sha256 of the manifest's blob, where one was asked for."""
    files: int
    """Entries of every kind."""
    bytes: int
    """Of the contents of all files."""


REQUESTS: dict[str, type[Order]] = {"flush": Flush}
ANSWERS: dict[str, type[Struct]] = {"flush": Flushed}
