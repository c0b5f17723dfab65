"""What really lies in the bucket, as the admin sees it."""

from typing import NamedTuple

from infra.blobs import layout
from infra.bus import page
from infra.bus.connection import Bus


class Contents(NamedTuple):
    objects: int
    chunks: int


async def contents(bus: Bus) -> Contents:
    """How many messages of each sort are stored."""
    return Contents(await _count(bus, layout.ALL_OBJECTS), await _count(bus, layout.ALL_CHUNKS))


async def _count(bus: Bus, filter_: str) -> int:
    count, start = 0, 1
    while True:
        found = await page.fetch(bus, filter_, start, stream=layout.STREAM)
        count += len(found.entries)
        if not found.entries or not found.pending:
            return count
        start = found.entries[-1].seq + 1
