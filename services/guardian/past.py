"""What the log has of many subjects, in order.

Each subject is read by itself and the answers are put together here: asked for together, every page would end where the
busiest of them does, and the others would be read again and again.
"""

import heapq
from collections.abc import AsyncIterator, Sequence

from infra.bus import reader
from infra.bus.connection import Bus


async def past(bus: Bus, filters: Sequence[str], start: int, end: int) -> AsyncIterator[reader.Entry]:
    """Every entry from `start` to `end` that matches any of `filters`, which must not overlap, each once and in order.

    One page of each filter at most is held in memory. Raises what `infra.bus.reader.read` raises.
    """
    lanes = [reader.read(bus, [each], start, follow=False, end=end) for each in filters]
    waiting = [
        (entry.seq, number, entry)
        for number, lane in enumerate(lanes)
        if (entry := await anext(lane, None)) is not None
    ]
    heapq.heapify(waiting)
    while waiting:
        _, number, entry = waiting[0]
        yield entry
        following = await anext(lanes[number], None)
        if following is None:
            heapq.heappop(waiting)
        else:
            heapq.heapreplace(waiting, (following.seq, number, following))
