"""What is in a backup, as its first and last member tell it."""

import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from contracts.streams import (
    ARCHIVE_STREAM,
    BLOBS_BUCKET,
    COMMANDS_STREAM,
    LOG_STREAM,
    REPLAYS_BUCKET,
    SANDBOXES_BUCKET,
)

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]

FORMAT = 1
"""A larger number means a newer program."""
HEAD = "cloche-backup.json"
SUMS = "sums.json"
SIGNATURE = "signature.json"
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
them. Signs of life are left out: they may be lost. So are consumers: what was not acknowledged is given out again."""


class Head(Struct, frozen=True, kw_only=True):
    """The first member."""

    format: int
    made_at: datetime.datetime
    node: str
    realm: str = ""


class State(Struct, frozen=True, kw_only=True):
    messages: Count
    bytes: Count
    first_seq: Count
    last_seq: Count


class About(Struct, frozen=True, kw_only=True):
    """One stream, in the server's own words. Its settings were those of the store that it was taken from."""

    config: dict[str, Any]
    state: State


class Sum(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    sha256: str


class Signature(Struct, frozen=True, kw_only=True):
    """The last member, where there is a key of the audit. It is over the sums, and so over everything."""

    key: str
    signature: str


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
    signed_by: str | None = None
    """The public key of whoever made it, as `cloche audit keys` has it: the signature was found to be right."""

    @property
    def last_sequence(self) -> int:
        """Of the log."""
        return next((each.last_sequence for each in self.streams if each.stream == LOG_STREAM), 0)
