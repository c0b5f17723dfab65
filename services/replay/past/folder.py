"""Folds a sandbox's events up to a sequence, from the nearest snapshot on."""

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator

from contracts import codec, folding, subjects
from contracts.errors import Invalid
from contracts.folding import Folded
from infra.bus.page import Entry
from infra.log.view import LogView
from services.replay.past.snapshots import Snapshot, Snapshots, mark_of

SNAPSHOT_BYTES = 8 << 20
"""Of events between two snapshots, where they are large."""
SLICE_S = 0.002
"""So long at most before everybody else has their turn."""
AT_ONCE = 4
"""Long ones: short ones are folded between them."""


class Folder:
    """Makes snapshots on its way."""

    def __init__(self, snapshots: Snapshots, *, every: int) -> None:
        self._snapshots = snapshots
        self._every = every
        self._folding: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def at(self, view: LogView, sandbox: str, sequence: int) -> Folded | None:
        """After the last of its events up to a sequence; None where the log does not tell how it began by then.

        Raises `Unavailable`.
        """
        # Whoever asks for the same sandbox next finds the snapshots of the one before.
        async with self._folding.setdefault(sandbox, asyncio.Lock()):
            return await self._fold(view, sandbox, sequence, leisure=0.0, places=self._places)

    async def advance(self, view: LogView, sandbox: str, sequence: int) -> None:
        """Only for the snapshots, and with leisure: half of the time is everybody else's."""
        await self._fold(view, sandbox, sequence, leisure=1.0, places=contextlib.nullcontext())

    async def _fold(
        self,
        view: LogView,
        sandbox: str,
        sequence: int,
        *,
        leisure: float,
        places: contextlib.AbstractAsyncContextManager[None],
    ) -> Folded | None:
        """One of the `places` is taken only by who goes further than to a first snapshot: the others are quick."""
        folded = await self._base(view, sandbox, sequence)
        start = 1 if folded is None else folded.sequence + 1
        events = size = 0
        async with contextlib.AsyncExitStack() as taken:
            is_long = False
            async for entry in _slowly(view.read(subjects.events_of(sandbox), start, end=sequence), leisure):
                folded = _applied(folded, sandbox, entry)
                events, size = events + 1, size + len(entry.data)
                if events < self._every and size < SNAPSHOT_BYTES:
                    continue
                if not is_long:
                    await taken.enter_async_context(places)
                    is_long = True
                # A snapshot is of the event that it names: not of one that could not be read.
                if folded is not None and folded.sequence == entry.seq:
                    await self._snapshots.keep(sandbox, entry, folded)
                    events = size = 0
        return folded

    async def _base(self, view: LogView, sandbox: str, sequence: int) -> Folded | None:
        base = await self._snapshots.nearest(sandbox, sequence)
        if base is None:
            return None
        bounds = await view.bounds()
        if base.folded.sequence < bounds.first - 1:
            # Events that followed it may be forgotten.
            return None
        if base.folded.sequence >= bounds.first and not await _continues(view, sandbox, base):
            await self._snapshots.forget(sandbox)
            return None
        return base.folded


def _applied(folded: Folded | None, sandbox: str, entry: Entry) -> Folded | None:
    """What is no event at all, or says that it is of another sandbox, is passed over."""
    try:
        head = codec.decode_head(entry.data)
    except Invalid:
        return folded
    return folding.apply(folded, entry.seq, head) if head.sandboxid == sandbox else folded


async def _continues(view: LogView, sandbox: str, base: Snapshot) -> bool:
    """Whether the log has the event that a snapshot ends with."""
    entry = await view.first(subjects.events_of(sandbox)[0], start=base.folded.sequence)
    return entry is not None and entry.seq == base.folded.sequence and mark_of(entry) == base.event


async def _slowly(entries: AsyncIterator[Entry], leisure: float) -> AsyncIterator[Entry]:
    began = time.perf_counter()
    async for entry in entries:
        yield entry
        spent = time.perf_counter() - began
        if spent >= SLICE_S:
            await asyncio.sleep(min(spent, 0.1) * leisure)
            began = time.perf_counter()
