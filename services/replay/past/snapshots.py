"""Snapshots of folds: what was folded of a sandbox up to an event, and how that event is known again."""

import asyncio
import contextlib
import hashlib

from msgspec import Struct

from contracts import codec
from contracts.errors import Invalid
from contracts.folding import Folded
from infra.bus.page import Entry
from services.replay.past.store import SnapshotStore


class Snapshot(Struct, frozen=True, kw_only=True):
    event: str
    """Tells the last event that is in it from any other with its sequence: see `mark_of`."""
    folded: Folded


def mark_of(entry: Entry) -> str:
    """A log that was lost and begun again, or whose store reuses a sequence, has another event there."""
    return hashlib.sha256(entry.data).hexdigest()[:32]


def pack(snapshot: Snapshot) -> bytes | None:
    """None for what would not be the same again: numbers that JSON has no words for."""
    try:
        raw = codec.encode(snapshot)
        return raw if codec.decode(raw, Snapshot) == snapshot else None
    except (Invalid, OverflowError, ValueError):
        return None


class Snapshots:
    """In threads: the event loop is everybody's."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store

    async def newest(self, sandbox: str) -> int | None:
        """Its sequence."""
        found = await asyncio.to_thread(self._store.sequences, sandbox)
        return found[-1] if found else None

    async def nearest(self, sandbox: str, at: int) -> Snapshot | None:
        return await asyncio.to_thread(self._nearest, sandbox, at)

    def _nearest(self, sandbox: str, at: int) -> Snapshot | None:
        while (found := self._store.nearest(sandbox, at)) is not None:
            with contextlib.suppress(Invalid):
                snapshot: Snapshot = codec.decode(found.content, Snapshot)
                if snapshot.folded.sequence == found.sequence:
                    return snapshot
            self._store.forget(sandbox, found.sequence)
            at = found.sequence - 1
        return None

    async def keep(self, sandbox: str, entry: Entry, folded: Folded) -> None:
        """What is folded up to and with this entry."""
        await asyncio.to_thread(self._keep, sandbox, Snapshot(event=mark_of(entry), folded=folded))

    def _keep(self, sandbox: str, snapshot: Snapshot) -> None:
        packed = pack(snapshot)
        if packed is not None:
            self._store.write(sandbox, snapshot.folded.sequence, packed)

    async def forget(self, sandbox: str) -> None:
        await asyncio.to_thread(self._store.forget, sandbox)

    async def clear(self) -> None:
        await asyncio.to_thread(self._store.clear)

    async def clear_others(self) -> None:
        await asyncio.to_thread(self._store.clear_others)
