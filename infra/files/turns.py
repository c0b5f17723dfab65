"""Turns at work that takes long: few at a time. No sandbox can have them all, or wait with any number of requests."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.errors import Unavailable


class Turns:
    def __init__(self, *, together: int, each: int, waiting: int, waiting_each: int, patience_s: float) -> None:
        """`each` of a sandbox at a time, `together` of all; `waiting_each` and `waiting` wait, for `patience_s`."""
        self._together = together
        self._each = each
        self._waiting = waiting
        self._waiting_each = waiting_each
        self._patience_s = patience_s
        self._busy: Counter[str] = Counter()
        self._queued: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def turn(self, sandbox: str) -> AsyncIterator[None]:
        """Raises `Unavailable`: too many wait already, or it waited so long that nobody wants the answer any more."""
        await self._begin(sandbox)
        try:
            yield
        finally:
            self._less(self._busy, sandbox)
            await asyncio.shield(self._tell())

    async def _begin(self, sandbox: str) -> None:
        if self._queued[sandbox] >= self._waiting_each or self._queued.total() >= self._waiting:
            raise Unavailable(f"too many long requests wait, {self._queued[sandbox]} of this sandbox: try again later")
        self._queued[sandbox] += 1
        try:
            async with asyncio.timeout(self._patience_s), self._changed:
                await self._changed.wait_for(lambda: self._is_free(sandbox))
                self._busy[sandbox] += 1
        except TimeoutError:
            raise Unavailable("other long requests took all the time: try again later") from None
        finally:
            self._less(self._queued, sandbox)

    def _is_free(self, sandbox: str) -> bool:
        return self._busy[sandbox] < self._each and self._busy.total() < self._together

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    @staticmethod
    def _less(counter: Counter[str], sandbox: str) -> None:
        counter[sandbox] -= 1
        if not counter[sandbox]:
            del counter[sandbox]
