"""How fast the log is read behind the backs of those who write it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

REST = 9.0
"""While others write, so many times as long as a page took is left to them: the more they do, the longer it takes."""
LONGEST_REST_S = 1.0
"""However busy they are, the log is followed at a page each time."""
FIRST_IDLE_S = 0.2
LONGEST_IDLE_S = 2.0


class Pace:
    def __init__(self) -> None:
        self._head = 0
        self._idle_s = FIRST_IDLE_S

    @asynccontextmanager
    async def polite(self, head: int) -> AsyncIterator[None]:
        """Around the work on one page, when the log ended at `head`, without what we wrote ourselves."""
        loop = asyncio.get_running_loop()
        busy, begun = head != self._head, loop.time()
        yield
        self._head, self._idle_s = head, FIRST_IDLE_S
        await asyncio.sleep(min((loop.time() - begun) * REST, LONGEST_REST_S) if busy else 0)

    async def idle(self) -> None:
        """Longer each time, as long as there is nothing to do."""
        await asyncio.sleep(self._idle_s)
        self._idle_s = min(self._idle_s * 2, LONGEST_IDLE_S)
