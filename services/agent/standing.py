"""Where the sandbox of a run stands, as the log tells it."""

import asyncio
import contextlib

from contracts.errors import SandboxInvalidState
from contracts.state import SandboxState, Status
from infra.lifecycles import Lifecycles

NOTICE_S = 5.0
"""By then it is known whether a sandbox has died with a process."""
OVER = frozenset({Status.STOPPED, Status.FAILED, Status.REMOVED, Status.COMPLETED, Status.ERROR})


class Moved(Exception):
    """The sandbox is another node's by now, and so are its runs."""


class Standing:
    def __init__(self, lifecycles: Lifecycles, sandbox: str, node: str) -> None:
        self._lifecycles = lifecycles
        self._sandbox = sandbox
        self._node = node
        self._news = asyncio.Event()
        self._moved = asyncio.Event()
        self._gone = False

    def notice(self, state: SandboxState) -> None:
        """To be called with every new state of any sandbox."""
        if state.sandbox == self._sandbox:
            self._gone = state.status == Status.REMOVED
            self._news.set()
            self._moved.set()

    async def running(self, lost: str | None) -> SandboxState:
        """Its state once it runs; `lost` is the life of it in which something was lost, so that another may come.

        Raises `SandboxInvalidState` when it will not run again by itself, `Moved`.
        """
        while True:
            self._news.clear()
            state = self._state()
            if state.status == Status.RUNNING and (state.instance != lost or not await self._changes(NOTICE_S)):
                return state
            if state.status != Status.RUNNING:
                await self._news.wait()

    async def goes(self) -> None:
        """Raises `Moved` when it does, `SandboxInvalidState` when it is stopped or removed."""
        while True:
            self._moved.clear()
            self._state()
            await self._moved.wait()

    async def falls(self, before: SandboxState, within_s: float) -> bool:
        """Whether it is no longer as it was, or comes not to be within that time. Raises what `running` raises."""
        while True:
            self._news.clear()
            state = self._state()
            if state.status != Status.RUNNING or state.instance != before.instance:
                return True
            if not await self._changes(within_s):
                return False

    def _state(self) -> SandboxState:
        state = self._lifecycles.get(self._sandbox)
        if state is None or self._gone:
            raise SandboxInvalidState(f"sandbox {self._sandbox!r} was removed")
        if state.node != self._node:
            raise Moved
        if state.status in OVER:
            why = f": {state.error.message}" if state.error is not None else ""
            raise SandboxInvalidState(f"sandbox {self._sandbox!r} is {state.status}{why}", status=state.status)
        return state

    async def _changes(self, within_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()
                return True
        return False
