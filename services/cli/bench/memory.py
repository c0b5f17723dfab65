"""How much the resident memory of some processes grows meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import psutil

EVERY_S = 0.05


class Growth:
    """The peak is that of all processes together."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in processes]
        self._before = self._now()
        self._peak = self._before

    @property
    def bytes(self) -> int:
        return self._peak - self._before

    def look(self) -> None:
        self._peak = max(self._peak, self._now())

    def _now(self) -> int:
        return sum(int(process.memory_info().rss) for process in self._processes)


@asynccontextmanager
async def watched(*processes: int) -> AsyncIterator[Growth]:
    growth = Growth(processes)

    async def watch() -> None:
        while True:
            growth.look()
            await asyncio.sleep(EVERY_S)

    watching = asyncio.create_task(watch())
    try:
        yield growth
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        growth.look()
