"""As root every sandbox gets a user of its own on the host, so that none is root and none is another's."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from contracts.errors import SandboxInvalidState
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.record import load_record

FIRST_UID = 200_000


@contextmanager
def uid_allocation(files: DataFiles, first: int = FIRST_UID) -> Iterator[int | None]:
    """A uid that no sandbox of this data directory has, kept free until the block has recorded it.

    None when this process is not root: then the sandbox runs as the same user.
    """
    if os.geteuid() != 0:
        yield None
        return
    descriptor = os.open(files.uid_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        taken = _taken(files)
        yield next(uid for uid in count(first) if uid not in taken)
    finally:
        os.close(descriptor)


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
