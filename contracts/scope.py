"""What of a log is verified, and by whose word."""

import datetime
from collections.abc import Iterable
from typing import NamedTuple

from contracts.anchoring import Kept


class Scope(NamedTuple):
    """What should be there."""

    sandbox: str | None = None
    """Its events and the checkpoints. None = every event."""
    log: str = ""
    """The log's name, where it is known beforehand."""
    first: int = 1
    """From here on: what lies before was dropped by the log's limits, or left out of an export."""
    last: int = 0
    """Up to here. 0 = whatever comes."""
    exported_at: datetime.datetime | None = None
    """When somebody wrote down the file that is read. None = it is the log itself."""


class Trust(NamedTuple):
    """Whose word counts beside that of the log."""

    keys: tuple[str, ...] = ()
    """Public keys. Where there are any, everything has to be signed by one of them, or one that is tied to them."""
    own: str | None = None
    """The public key of whoever keeps the log, and asks."""
    anchors: tuple[Kept | Iterable[Kept], ...] = ()
    """Single ones in any order, and places that have any number of them, in the order of the log: see `Anchors`."""
