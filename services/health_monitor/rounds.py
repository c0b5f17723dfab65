"""Looks at each sandbox, one after the other and spread over the interval, whatever one of them does."""

import asyncio
import heapq
import logging
import time
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from contracts.errors import ClocheError
from contracts.spec import Isolation
from contracts.state import SandboxState
from infra.observing.about import About, speaking_of

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Looks at a time, for each kind of sandbox: an engine that hangs holds up no other kind."""
AGAIN_S = 2.0
"""Until one that was not well is looked at again, where the interval is longer."""

Alive = Callable[[str], SandboxState | None]
Look = Callable[[SandboxState], Awaitable[bool]]


class _Turn(NamedTuple):
    at: float
    sandbox: str
    instance: str | None


class Rounds:
    """Run `walk` in a task. `look` answers whether all is well, and ends in time."""

    def __init__(self, every_s: float, alive: Alive, look: Look) -> None:
        self._every_s = every_s
        self._alive = alive
        self._look = look
        self._turns: list[_Turn] = []
        self._lives: dict[str, str | None] = {}
        self._places: dict[Isolation, asyncio.Semaphore] = {}
        self._news = asyncio.Event()

    def begin(self, state: SandboxState) -> None:
        """A life of it has just begun, or was found: it is looked at now, and from then on."""
        if self._lives.get(state.sandbox, "") != state.instance:
            self._lives[state.sandbox] = state.instance
            self._put(state, 0.0)

    def end(self, sandbox: str) -> None:
        self._lives.pop(sandbox, None)

    async def walk(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as looks:
            while True:
                self._news.clear()
                now = time.monotonic()
                while self._turns and self._turns[0].at <= now:
                    turn = heapq.heappop(self._turns)
                    if self._lives.get(turn.sandbox, "") == turn.instance:
                        looks.create_task(speaking_of(About(turn.sandbox), self._take, turn))
                await self._pause(self._turns[0].at - now if self._turns else self._every_s)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _take(self, turn: _Turn) -> None:
        state = self._alive(turn.sandbox)
        if state is None or state.instance != turn.instance:
            return
        is_well = False
        async with self._places.setdefault(state.isolation, asyncio.Semaphore(AT_ONCE)):
            try:
                is_well = await self._look(state)
            except (ClocheError, OSError) as error:
                logger.warning("%s: %s", state.sandbox, error)
            except Exception:
                # Whatever one of them does to whoever looks at it, the others are still watched.
                logger.exception("%s: a look at it failed", state.sandbox)
        self._put(state, self._next(turn) if is_well else min(AGAIN_S, self._every_s))

    def _next(self, turn: _Turn) -> float:
        """After the first look all have different turns, though they were found at the same time."""
        share = (zlib.crc32(turn.sandbox.encode()) % 1000 + 1) / 1000
        return self._every_s * share if turn.at == 0.0 else self._every_s

    def _put(self, state: SandboxState, after_s: float) -> None:
        at = time.monotonic() + after_s if after_s else 0.0
        heapq.heappush(self._turns, _Turn(at, state.sandbox, state.instance))
        self._news.set()
