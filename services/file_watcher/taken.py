"""What a look has brought in."""

import errno

from contracts.manifest import Entry
from contracts.sight import Seen
from infra.blobs.errors import StoreFull

VANISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO})
LASTING = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EDQUOT})


def is_momentary(error: OSError) -> bool:
    """It may be over without any change that somebody could notice."""
    return error.errno not in LASTING


class Taken:
    """What is on disk, in the words of the log."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.seen: dict[bytes, Seen] = {}
        self.sure: set[bytes] = set()
        self.firm: set[bytes] = set()
        """Those of them that are sure even if somebody has them mapped."""
        self.unread: dict[bytes, OSError] = {}
        """There, and not ours to read: told without content."""
        self.large: set[bytes] = set()
        """Those whose content was stored in chunks."""
        self.vanished: set[bytes] = set()
        """Not what they were a moment ago: to be looked at again."""
        self.waits: dict[bytes, int] = {}
        """Left for later, with their sizes: there is no budget for them."""
        self.kept_bytes = 0
        """Of contents that were put into the store."""
        self.full: StoreFull | None = None
        """Why some contents were not."""

    def miss(self, path: bytes, error: OSError) -> None:
        if error.errno in VANISHED:
            self.vanished.add(path)
        else:
            self.unread[path] = error

    def add(self, path: bytes, entry: Entry, seen: Seen, *, sure: bool, firm: bool = False) -> None:
        self.entries[path] = entry
        self.seen[path] = seen
        if sure:
            self.sure.add(path)
            if firm:
                self.firm.add(path)
