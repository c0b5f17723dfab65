"""The checkpoints and keys that the log itself tells of."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts import chain, codec, subjects
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint, AuditRotated
from contracts.message import EventHead
from infra.audit.record import Kept
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry

CHECKPOINTS = subjects.checkpoints()
ROTATIONS = subjects.event(subjects.NO_SANDBOX, "audit.rotated")


class KeyNamed(NamedTuple):
    sequence: int
    key: str
    node: str | None
    """Who said so."""


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
    named = _named(found)
    node = None if named is None else named.node
    if (kept := kept_of(found)) is not None:
        return Newest(kept, found.seq, node)
    last = None
    async for kept in after(bus, 0):
        last = kept
    return Newest(last, found.seq, node)


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


async def newest_key(bus: Bus) -> KeyNamed | None:
    """The key that signs, as the log says. Raises `Unavailable`."""
    named = [_named(entry) for entry in (await reader.last(bus, CHECKPOINTS), await reader.last(bus, ROTATIONS))]
    return max((each for each in named if each is not None), default=None)


async def all_keys(bus: Bus) -> list[KeyNamed]:
    """Oldest first. Raises `Unavailable`."""
    first = await reader.first(bus, CHECKPOINTS)
    rotations = [entry async for entry in reader.read(bus, [ROTATIONS], follow=False)]
    kept: dict[str, KeyNamed] = {}
    for each in map(_named, [first, *rotations]):
        if each is not None:
            kept.setdefault(each.key, each)
    return sorted(kept.values())


def _named(entry: Entry | None) -> KeyNamed | None:
    if entry is None:
        return None
    try:
        head = codec.decode_head(entry.data)
        return KeyNamed(entry.seq, _key(head), head.node)
    except Invalid:
        return None


def _key(head: EventHead) -> str:
    if head.type == "audit.rotated":
        rotated: AuditRotated = codec.decode(head.data, AuditRotated)
        return rotated.next
    checkpoint: AuditCheckpoint = codec.decode(head.data, AuditCheckpoint)
    return checkpoint.key
