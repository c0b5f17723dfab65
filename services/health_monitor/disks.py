"""How much disk each sandbox holds, at a bounded cost: a walk over its files, and it decides how many those are."""

import asyncio
import heapq
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from contracts.errors import ClocheError
from contracts.spec import Isolation
from contracts.state import SandboxState
from infra.observing.about import About, speaking_of
from infra.sandbox.base import Provider

logger = logging.getLogger(__name__)

SOON_S = 5.0
"""Between looks at a workspace that grows."""
SHARE = 0.1
"""Of one CPU, for each of the two lanes."""
SLOW_S = 1.0
"""A walk that takes longer goes on in the slow lane, and the others need not wait for it."""

Found = Callable[[SandboxState, int], Awaitable[None]]


class _Due(NamedTuple):
    at: float
    every_s: float
    used: int | None


class Disks:
    """Run `walk` in a task. `of` is what was found last."""

    def __init__(self, providers: Mapping[Isolation, Provider], every_s: float, found: Found) -> None:
        self._providers = providers
        self._every_s = every_s
        self._found = found
        self._due: dict[str, _Due] = {}
        self._turns: list[tuple[float, str]] = []
        """A heap, for looking at all of them before each walk would cost more than the walks. Those that were put off
        are left in it, and passed over."""
        self._slow: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def of(self, sandbox: str) -> int | None:
        due = self._due.get(sandbox)
        return None if due is None else due.used

    def add(self, sandbox: str) -> None:
        if sandbox not in self._due:
            self._put(sandbox, _Due(0.0, min(SOON_S, self._every_s), None))
            self._news.set()

    def forget(self, sandbox: str) -> None:
        self._due.pop(sandbox, None)

    async def walk(self, alive: Callable[[str], SandboxState | None]) -> None:
        """For ever. `alive` gives the state of a sandbox that is still to be looked at."""
        try:
            while True:
                self._news.clear()
                sandbox = self._next()
                wait_s = self._every_s if sandbox is None else self._due[sandbox].at - time.monotonic()
                if sandbox is None or wait_s > 0:
                    await self._pause(wait_s)
                elif (state := alive(sandbox)) is None:
                    self.forget(sandbox)
                else:
                    await self._measure(state)
        finally:
            if self._slow is not None:
                self._slow.cancel()
                await asyncio.gather(self._slow, return_exceptions=True)

    def _next(self) -> str | None:
        """Whose turn comes first."""
        while self._turns:
            at, sandbox = self._turns[0]
            if (due := self._due.get(sandbox)) is not None and due.at == at:
                return sandbox
            heapq.heappop(self._turns)
        return None

    def _put(self, sandbox: str, due: _Due) -> None:
        self._due[sandbox] = due
        heapq.heappush(self._turns, (due.at, sandbox))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def _measure(self, state: SandboxState) -> None:
        begun = time.monotonic()
        self._put_off(state.sandbox, self._every_s)
        task = asyncio.create_task(speaking_of(About(state.sandbox), self._one, state, begun))
        await asyncio.wait({task}, timeout=SLOW_S)
        if not task.done():
            # At most one walk goes on beside the others: every one of them holds a thread.
            if self._slow is not None:
                await asyncio.gather(self._slow, return_exceptions=True)
            self._slow = task
            return
        task.result()
        await asyncio.sleep((time.monotonic() - begun) * (1 / SHARE - 1))

    async def _one(self, state: SandboxState, begun: float) -> None:
        try:
            used = (await self._providers[state.isolation].disk_usage(state.sandbox)).bytes
            self._note(state.sandbox, used, time.monotonic() - begun)
            await self._found(state, used)
        except (ClocheError, OSError) as error:
            # A workspace is the sandbox's own: what it does there must not stop the watch over others.
            logger.warning("%s: its disk cannot be measured: %s", state.sandbox, error)
        except Exception:
            logger.exception("%s: its disk cannot be measured", state.sandbox)

    def _put_off(self, sandbox: str, seconds: float) -> None:
        if due := self._due.get(sandbox):
            self._put(sandbox, due._replace(at=time.monotonic() + seconds))

    def _note(self, sandbox: str, used: int, took_s: float) -> None:
        due = self._due.get(sandbox)
        if due is None:
            return
        changed = used != due.used
        every_s = min(SOON_S, self._every_s) if changed else min(due.every_s * 2, self._every_s)
        self._put(sandbox, _Due(time.monotonic() + max(every_s, took_s / SHARE * 2), every_s, used))
