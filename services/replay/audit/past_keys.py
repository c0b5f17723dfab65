"""The keys that the log itself tells of: which one signs, which ones did, which ones stand by."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from contracts import codec, subjects, succession
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint, AuditHeir, AuditRotated, AuditStandby
from contracts.keyring import Check
from contracts.message import EventHead, Fact
from contracts.succession import Standing
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.watching.threads import in_thread
from services.replay.audit import past_checkpoints
from services.replay.audit.past_checkpoints import CHECKPOINTS

ROTATIONS = subjects.event(subjects.NO_SANDBOX, "audit.rotated")
STANDBY, HEIR = "audit.standby", "audit.heir"
EVERY_STANDBY = subjects.events_of(subjects.NO_SANDBOX, family="audit", kind="standby", scope="*")
EVERY_HEIR = subjects.events_of(subjects.NO_SANDBOX, family="audit", kind="heir", scope="*")


class KeyNamed(NamedTuple):
    sequence: int
    key: str
    node: str | None
    """Who said so."""


class Signs(NamedTuple):
    named: KeyNamed | None
    """None where nothing was signed yet."""
    guard: int
    """The sequence of the last change of keys, which guards the next. 0 = there is none."""


class Rotation(NamedTuple):
    sequence: int
    fact: AuditRotated
    node: str | None

    @property
    def named(self) -> KeyNamed:
        return KeyNamed(self.sequence, self.fact.next, self.node)


async def signs_now(bus: Bus, log: str) -> Signs:
    """The key that signs, as the log says: every change of keys is told, so the last one counts.

    A checkpoint that comes after it need not be by that key: whoever was replaced may have been about to write it.
    Raises `Unavailable`.
    """
    last = await reader.last(bus, ROTATIONS)
    newest = await _signer(bus)
    if last is None:
        return Signs(newest, 0)
    rotation = _rotation(last, log, await check())
    if rotation is None:
        rotation = next(reversed(await rotations(bus, log)), None)
    if rotation is None or (newest is not None and newest.key == rotation.fact.next):
        return Signs(newest, last.seq)
    return Signs(rotation.named, last.seq)


async def _signer(bus: Bus) -> KeyNamed | None:
    kept, _, node = await past_checkpoints.newest(bus)
    return None if kept is None else KeyNamed(kept.sequence, kept.checkpoint.key, node)


async def rotations(bus: Bus, log: str) -> list[Rotation]:
    """All that count, oldest first. Raises `Unavailable`."""
    by = await check()
    found = [_rotation(entry, log, by) async for entry in reader.read(bus, [ROTATIONS], follow=False)]
    return [each for each in found if each is not None]


async def all_keys(bus: Bus, log: str) -> list[KeyNamed]:
    """Those that signed or are to sign, oldest first. Raises `Unavailable`."""
    first = await reader.first(bus, CHECKPOINTS)
    kept = {each.fact.next: each.named for each in await rotations(bus, log)}
    if first is not None and isinstance(fact := _fact(first), AuditCheckpoint) and fact.key not in kept:
        return [KeyNamed(first.seq, fact.key, None), *kept.values()]
    return list(kept.values())


async def used(bus: Bus, log: str) -> frozenset[str]:
    """Keys that were replaced, or took another's place: none of them is new. Raises `Unavailable`."""
    return frozenset(key for each in await rotations(bus, log) for key in (each.fact.key, each.fact.next))


async def standing(bus: Bus, log: str) -> dict[str, Standing]:
    """By node, the key that each has announced last, and whether it is an heir. Raises `Unavailable`."""
    by = await check()
    standbys: dict[str, Standing] = {}
    heirs: dict[str, tuple[int, AuditHeir]] = {}
    for entry in await page.fetch_lasts(bus, [*EVERY_STANDBY, *EVERY_HEIR]):
        node = entry.subject.rpartition(".")[2]
        match _fact(entry):
            case AuditStandby() as standby if succession.is_announced(standby, log, node, by):
                standbys[node] = Standing(node, standby.key, entry.seq)
            case AuditHeir() as heir if succession.is_signed(heir, log, by):
                heirs[node] = (entry.seq, heir)
    return {
        node: each._replace(named=heirs[node][0], heir=heirs[node][1]) if node in heirs else each
        for node, each in standbys.items()
    }


async def heir(bus: Bus, log: str, node: str, *, key: str, following: str) -> AuditHeir | None:
    """The word of a key that another one of this node may follow it; None where it has given none.

    Not the last word only: a key that was replaced may have said something since. Raises `Unavailable`.
    """
    by = await check()
    async for fact in _heirs(bus, node):
        if (fact.key, fact.next) == (key, following) and succession.is_signed(fact, log, by):
            return fact
    return None


async def _heirs(bus: Bus, node: str) -> AsyncIterator[AuditHeir]:
    async for entry in reader.read(bus, [subjects.event(subjects.NO_SANDBOX, HEIR, node)], follow=False):
        if isinstance(fact := _fact(entry), AuditHeir):
            yield fact


async def check() -> Check:
    """What tells whether a signature is right. The library takes long to import: by a thread."""
    return await in_thread(_check)


def _check() -> Check:
    from infra.audit.signing import verify

    return verify


def _rotation(entry: Entry, log: str, by: Check) -> Rotation | None:
    """None for one that proves nothing: whoever may write here might have written it."""
    fact = _fact(entry)
    if not isinstance(fact, AuditRotated) or not succession.counts(fact, log, by):
        return None
    return Rotation(entry.seq, fact, codec.decode_head(entry.data).node)


def _fact(entry: Entry) -> Fact | None:
    try:
        head: EventHead = codec.decode_head(entry.data)
        return codec.decode_fact(head)
    except Invalid:
        return None
