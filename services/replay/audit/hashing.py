"""Leaves of what was read, in bulk."""

from typing import NamedTuple

from contracts import chain, subjects
from contracts.chain import Message
from infra.bus.page import Entry
from infra.watching.threads import in_thread

SMALL_BYTES = 32 * 1024
"""So much is hashed sooner than a thread begins."""
CHECKPOINTS = subjects.checkpoints()


class Hashed(NamedTuple):
    entry: Entry
    leaf: bytes
    mark: bytes

    @property
    def is_checkpoint(self) -> bool:
        return self.entry.subject == CHECKPOINTS


def message_of(entry: Entry) -> Message:
    return Message(entry.seq, entry.subject, entry.msg_id, entry.stored_at, entry.data)


async def hash_all(log: str, entries: list[Entry]) -> list[Hashed]:
    """Large ones in a thread: hashing lets the others run meanwhile."""
    if sum(len(entry.data) for entry in entries) <= SMALL_BYTES:
        return _hash(log, entries)
    return await in_thread(_hash, log, entries)


def _hash(log: str, entries: list[Entry]) -> list[Hashed]:
    marks: dict[str, bytes] = {}
    found: list[Hashed] = []
    for entry in entries:
        sandbox = subjects.sandbox_of(entry.subject)
        if (mark := marks.get(sandbox)) is None:
            mark = marks[sandbox] = chain.mark(log, sandbox)
        found.append(Hashed(entry, chain.leaf(message_of(entry)), mark))
    return found
