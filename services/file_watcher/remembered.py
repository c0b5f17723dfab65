"""What files were when they were read, remembered across restarts: what is the same then need not be read again.

A row says that a file of this inode, size and times has this content. That stays true for as long as the machine runs:
a power cut may take back contents and leave the times, so after a boot nothing counts.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from services.file_watcher.told import Known, Told

logger = logging.getLogger(__name__)

VERSION = 1
BOOT = Path("/proc/sys/kernel/random/boot_id")
ROWS_AT_ONCE = 1000


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    boot: str
    device: int
    root: int
    """The inode of the workspace: one that was made anew is another."""
    version: int = VERSION


class Remembered:
    """A file for each sandbox: a line with a head, then lines with rows."""

    def __init__(self, place: Path, boot: Path = BOOT) -> None:
        """`place` is a directory of ours alone; it need not be there yet."""
        self._place = place
        self._boot = boot

    def keep(self, sandbox: str, root: int, told: Told) -> None:
        """Of the workspace that `root` is open on. Raises `OSError`."""
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        # No id begins so.
        fresh = self._place / f".{sandbox}"
        with fresh.open("wb") as file:
            file.writelines(_lines(self._head(root), told.known()))
        fresh.replace(self._place / sandbox)

    def recall(self, sandbox: str, root: int, told: Told) -> int:
        """Counts as seen what the log has with the same content; answers how many. What cannot be read is nothing."""
        count = 0
        try:
            with (self._place / sandbox).open("rb") as file:
                if msgspec.json.decode(file.readline(), type=_Head) != self._head(root):
                    return 0
                for line in file:
                    count += sum(map(told.recall, msgspec.json.decode(line, type=list[Known])))
        except FileNotFoundError:
            return 0
        except (OSError, msgspec.DecodeError) as error:
            logger.warning("%s: what was known of its files is not used: %s", sandbox, error)
        return count

    def forget(self, sandbox: str) -> None:
        """Raises `OSError`."""
        (self._place / sandbox).unlink(missing_ok=True)

    def forget_all_but(self, sandboxes: Iterable[str]) -> None:
        """What cannot be removed stays, and does no harm."""
        kept = set(sandboxes)
        try:
            for found in self._place.iterdir() if self._place.is_dir() else ():
                if found.name not in kept:
                    found.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("what was known of files of others is not removed: %s", error)

    def _head(self, root: int) -> _Head:
        info = os.fstat(root)
        return _Head(boot=self._boot.read_text().strip(), device=info.st_dev, root=info.st_ino)


def _lines(head: _Head, rows: Iterator[Known]) -> Iterator[bytes]:
    yield msgspec.json.encode(head) + b"\n"
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield msgspec.json.encode(some) + b"\n"
