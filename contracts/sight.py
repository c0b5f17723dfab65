"""What a look at a workspace on disk can say."""

from typing import NamedTuple

from contracts.events.file import EntryKind


class Seen(NamedTuple):
    """An entry as `lstat` tells it."""

    kind: EntryKind
    mode: int
    size: int
    """0 unless it is a file."""
    mtime_ns: int
    ctime_ns: int
    inode: int
    links: int
    target: bytes | None
    """Of a symbolic link."""


class Sight:
    """What was found in one look. Paths are raw and relative to the workspace; `b""` is the workspace itself."""

    def __init__(self) -> None:
        self.found: dict[bytes, Seen] = {}
        self.gone: set[bytes] = set()
        """Looked for and not there, so nothing beneath is there either."""
        self.listed: set[bytes] = set()
        """Directories whose entries are all in `found`, `gone` or `troubles`."""
        self.troubles: dict[bytes, OSError] = {}
        """Could not be looked at; what is known of these, and of what is beneath, may be old."""
        self.uncovered = False
        """Some directory is not watched."""
