"""What is in a backup, as its first and last member tell it."""

import datetime
from typing import Any

from msgspec import Struct

from contracts.streams import (
    ARCHIVE_STREAM,
    BLOBS_BUCKET,
    COMMANDS_STREAM,
    LOG_STREAM,
    REPLAYS_BUCKET,
    SANDBOXES_BUCKET,
)

FORMAT = 1
"""A larger number means a newer program."""
HEAD = "cloche-backup.json"
SUMS = "sums.json"
FILES = "files"
STREAMS = "streams"
ABOUT = "about.json"

ORDER = (
    f"KV_{SANDBOXES_BUCKET}",
    f"KV_{REPLAYS_BUCKET}",
    COMMANDS_STREAM,
    LOG_STREAM,
    ARCHIVE_STREAM,
    f"OBJ_{BLOBS_BUCKET}",
)
"""In which streams are taken. Whatever speaks of events comes before the log, so the log has them all: read models, and
orders, which the log tells to have been obeyed. Contents come after it, for they were there before the events that name
them. Signs of life are left out: they may be lost."""
CONSUMED = frozenset({COMMANDS_STREAM})
"""Streams whose consumers belong to them: which orders were given out. All others are read anew by whoever reads."""


class Head(Struct, frozen=True, kw_only=True):
    """The first member."""

    format: int
    made_at: datetime.datetime
    node: str
    realm: str = ""


class About(Struct, frozen=True, kw_only=True):
    """One stream, in the server's own words."""

    config: dict[str, Any]
    state: dict[str, Any]


class Sum(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    sha256: str


class Contained(Struct, frozen=True, kw_only=True):
    """One stream of a backup, for people and programs."""

    stream: str
    messages: int
    first_sequence: int
    last_sequence: int
    bytes: int
    """As they are in the file, compressed."""


class Backup(Struct, frozen=True, kw_only=True):
    """A whole file, whose every byte was found to be as it was written."""

    file: str
    bytes: int
    made_at: datetime.datetime
    node: str
    streams: tuple[Contained, ...]
    files: tuple[str, ...]
    """Of the data directory. Among them are private keys, passwords and credentials."""

    @property
    def last_sequence(self) -> int:
        """Of the log."""
        return next((each.last_sequence for each in self.streams if each.stream == LOG_STREAM), 0)
