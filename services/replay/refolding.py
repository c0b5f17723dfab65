"""Folds read models again from nothing, while events go on being applied to those that are there."""

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Callable

from contracts.errors import Invalid
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.reader import Bounds
from services.replay.projection import Projection, filters, head_of

SLICE_S = 0.002
"""So long at most before everybody else has their turn."""


async def refold(
    bus: Bus,
    live: Projection,
    take: Callable[[Projection, Bounds], None],
    *,
    sandbox: str = "*",
    on_progress: Callable[[int, int], None] = lambda _done, _whole: None,
) -> None:
    """`take` gets what the log says by itself, of all sandboxes or of one, at least as far as `live` has come.

    And how far the log goes. It must not wait for anything: from then on the two go apart.

    Raises `Unavailable` only where the bus was closed.
    """
    fresh = Projection()
    head = (await reader.patiently(bus, reader.bounds)).last
    async for entry in _slowly(reader.read(bus, filters(sandbox), 1, follow=False, end=head)):
        _apply(fresh, entry)
        on_progress(entry.seq, head)
    with live.recording() as recorded:
        # Whatever was applied before the recording began is stored by now.
        now = (await reader.patiently(bus, reader.bounds)).last
        async for entry in _slowly(reader.read(bus, filters(sandbox), head + 1, follow=False, end=now)):
            _apply(fresh, entry)
        # What the log forgot meanwhile may be missing.
        bounds = await reader.patiently(bus, reader.bounds)
        for sequence, event in recorded:
            if sandbox in ("*", event.sandboxid):
                fresh.apply(sequence, event)
        take(fresh, bounds)


def _apply(fresh: Projection, entry: Entry) -> None:
    try:
        fresh.apply(entry.seq, head_of(entry))
    except Invalid:
        # Told once by whoever follows the log.
        return


async def _slowly(entries: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
    began = time.perf_counter()
    async for entry in entries:
        yield entry
        if time.perf_counter() - began >= SLICE_S:
            await sleep(0)
            began = time.perf_counter()
