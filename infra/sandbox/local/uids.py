"""As root every sandbox gets a user of its own on the host, so that none is root and none is another's."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from contracts.errors import SandboxInvalidState
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.record import load_record

FIRST_UID = 200_000
LAST_UID = 2_000_000_000
_DIGITS = 10


class UidRange(NamedTuple):
    first: int = FIRST_UID
    last: int = LAST_UID

    def holds(self, uid: int) -> bool:
        return self.first <= uid <= self.last


def set_uid_range(data: Path, uids: UidRange) -> None:
    """Of all that are taken from now on. Data directories that share a host have a range each."""
    files = DataFiles(data)
    if uids == _range(files):
        return
    files.uid_range.parent.mkdir(parents=True, exist_ok=True)
    draft = files.uid_range.with_name(f"{files.uid_range.name}.draft")
    draft.write_text(f"{uids.first} {uids.last}")
    draft.replace(files.uid_range)


def _range(files: DataFiles) -> UidRange:
    try:
        first, last = files.uid_range.read_text().split()
    except FileNotFoundError:
        return UidRange()
    return UidRange(int(first), int(last))


@contextmanager
def uid_allocation(files: DataFiles) -> Iterator[int | None]:
    """A uid that no sandbox of this data directory has, nor had since it was counted from here.

    None when this process is not root: then the sandbox runs as the same user.

    The next one is noted in the lock's file, on the disk before it is used: reading the records of all others took a
    time that grew with their number. Where nothing is noted, or all were used, those that are free are looked for.
    """
    if os.geteuid() != 0:
        yield None
        return
    descriptor = os.open(files.uid_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        uids = _range(files)
        uid = _noted(descriptor, uids) or _free(files, uids)
        _note(descriptor, uid + 1)
        yield uid
    finally:
        os.close(descriptor)


def _noted(descriptor: int, uids: UidRange) -> int | None:
    text = os.pread(descriptor, _DIGITS + 1, 0)
    if len(text) != _DIGITS or not text.isdigit():
        return None
    uid = int(text)
    return uid if uids.holds(uid) else None


def _note(descriptor: int, uid: int) -> None:
    os.pwrite(descriptor, f"{uid:0{_DIGITS}}".encode(), 0)
    os.ftruncate(descriptor, _DIGITS)
    os.fsync(descriptor)


def _free(files: DataFiles, uids: UidRange) -> int:
    """Behind all that are there, as long as there is room behind them."""
    taken = _taken(files)
    behind = max((uid for uid in taken if uid is not None and uids.holds(uid)), default=uids.first - 1) + 1
    return behind if uids.holds(behind) else next(uid for uid in count(uids.first) if uid not in taken)


def _taken(files: DataFiles) -> set[int | None]:
    while True:
        blanks = [SandboxFiles(root) for root in files.blanks.glob("*")]
        taken = {_uid_of(each) for each in (*blanks, *(files.of(sandbox) for sandbox in files.ids()))}
        # One that became a sandbox meanwhile may have been seen at neither place.
        if all(blank.root.exists() for blank in blanks):
            return taken


def _uid_of(files: SandboxFiles) -> int | None:
    try:
        record = load_record(files.record)
    except SandboxInvalidState:
        # One damaged record must neither block all others nor give its uid away.
        return files.workspace.lstat().st_uid if files.workspace.exists() else None
    return None if record is None else record.host_uid
