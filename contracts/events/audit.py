"""Checkpoints of the hash chain over the log, written by replay; and messages that somebody gave up on."""

from contracts.errors import Failure
from contracts.message import Fact
from contracts.payload import Encoding


class AuditCheckpoint(Fact, frozen=True, kw_only=True):
    first_sequence: int
    last_sequence: int
    hash: str
    previous: str
    key: str
    signature: str


class DeadLetter(Fact, frozen=True, kw_only=True):
    """Written by whoever gave up, on `dead_letter.<service>`."""

    subject: str
    reason: Failure
    delivered: int
    size: int
    data: str
    """The message, cut to its first 16 KiB."""
    encoding: Encoding
    truncated: bool = False
