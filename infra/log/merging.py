"""Several streams of entries as one, in the order of their sequences."""

import heapq
from collections.abc import AsyncIterator, Sequence

from infra.bus.page import Entry


async def merged(sources: Sequence[AsyncIterator[Entry]]) -> AsyncIterator[Entry]:
    """Each entry once, also one that several sources have. Every source is in order itself."""
    waiting: list[tuple[int, int, Entry]] = []
    for number, source in enumerate(sources):
        await _take(waiting, number, source)
    passed = 0
    while waiting:
        seq, number, entry = heapq.heappop(waiting)
        if seq > passed:
            passed = seq
            yield entry
        await _take(waiting, number, sources[number])


async def _take(waiting: list[tuple[int, int, Entry]], number: int, source: AsyncIterator[Entry]) -> None:
    entry = await anext(source, None)
    if entry is not None:
        heapq.heappush(waiting, (entry.seq, number, entry))
