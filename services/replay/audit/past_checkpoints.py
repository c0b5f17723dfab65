"""The checkpoints that the log itself tells of."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts import chain, codec, subjects
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint
from infra.audit.record import Kept
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry

CHECKPOINTS = subjects.checkpoints()


class Newest(NamedTuple):
    kept: Kept | None
    """The last one that can be read."""
    sequence: int
    """Of the last one, which guards the next. 0 = there is none."""
    node: str | None = None
    """That says to have written the last one."""


async def newest(bus: Bus) -> Newest:
    """Raises `Unavailable`."""
    found = await reader.last(bus, CHECKPOINTS)
    if found is None:
        return Newest(None, 0)
    if (kept := kept_of(found)) is not None:
        return Newest(kept, found.seq, _node(found))
    last = None
    async for kept in after(bus, 0):
        last = kept
    return Newest(last, found.seq, _node(found))


async def after(bus: Bus, sequence: int) -> AsyncIterator[Kept]:
    """Checkpoints that were stored later, in order, without those that cannot be read."""
    async for entry in reader.read(bus, [CHECKPOINTS], sequence + 1, follow=False):
        if (kept := kept_of(entry)) is not None:
            yield kept


def kept_of(entry: Entry) -> Kept | None:
    """None for what is no checkpoint, or cannot be one."""
    try:
        head = codec.decode_head(entry.data)
        said = codec.decode(head.data, AuditCheckpoint)
    except Invalid:
        return None
    return Kept(sequence=entry.seq, time=head.time, checkpoint=said) if chain.is_possible(said, entry.seq) else None


def _node(entry: Entry) -> str | None:
    try:
        return codec.decode_head(entry.data).node
    except Invalid:
        return None
