"""The connection of one client, from its first byte to its end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from infra.proxy.limits import Limits
from infra.proxy.port import Refused
from infra.proxy.wire import Broken, Wire

LINGER_S = 2.0
LINGER_BYTES = 4 * 1024 * 1024
CLIENT_GONE = "the client has gone"
TOO_SLOW = 408


class Phase(Enum):
    IDLE = auto()
    """Nothing was asked yet, or nothing more."""
    HEAD = auto()
    ASKING = auto()
    UNDER_WAY = auto()
    JOINED = auto()
    """A tunnel: either side may end long before the other."""
    LINGERING = auto()
    CLOSING = auto()
    """What was written is still on its way."""


class Connection(Wire):
    """Runs `serve` on itself. Held to the limits by `check`."""

    def __init__(self, limits: Limits, serve: Callable[["Connection"], Awaitable[None]]) -> None:
        super().__init__()
        self.limits = limits
        self.upstream: Wire | None = None
        """Where it is joined to at present."""
        self.stopped: Refused | None = None
        """Why it was ended from outside."""
        self.tunnelled = False
        """What is written from now on are the other side's bytes, no words of ours."""
        self.task: asyncio.Task[None] | None = None
        self._serve = serve
        self._phase = Phase.IDLE
        self._since = 0.0
        self._before_lingering = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.task = self._loop.create_task(self._run())

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.stop(Refused(CLIENT_GONE))

    def enter(self, phase: Phase) -> None:
        self._phase = phase
        self._since = self._loop.time()

    def stop(self, why: Refused) -> None:
        """Interrupts whatever it does, once."""
        if self.stopped is None and self.task is not None and not self.task.done():
            self.stopped = why
            self.task.cancel()

    def cut(self, reason: str) -> None:
        """Both sides, at once."""
        self.stop(Refused(reason))
        self.reset()
        if self.upstream is not None:
            self.upstream.reset()

    def check(self, now: float) -> None:
        """Ends what has taken too long."""
        limits, phase = self.limits, self._phase
        still_s = now - self._last_moved()
        if self.eof and still_s > limits.gone_timeout_s and phase in (Phase.ASKING, Phase.UNDER_WAY):
            self.stop(Refused(CLIENT_GONE))
        elif phase in (Phase.UNDER_WAY, Phase.JOINED) and still_s > limits.idle_timeout_s:
            self.stop(Refused(f"nothing came for {limits.idle_timeout_s:g} s", 504))
        elif phase is Phase.HEAD and now - self._since > limits.head_timeout_s:
            self.stop(Refused(f"the request took longer than {limits.head_timeout_s:g} s", TOO_SLOW))
        elif self._is_left_over(now, still_s):
            self.abort()

    async def linger(self) -> None:
        """Ends our side and waits for the client's: closing on what was not read would destroy what was written."""
        self.enter(Phase.LINGERING)
        self._before_lingering = self.received
        self.discard()
        self.end_writing()
        while await self.more():
            continue

    def _is_left_over(self, now: float, still_s: float) -> bool:
        """Nobody needs it any more."""
        if self._phase in (Phase.IDLE, Phase.CLOSING):
            return still_s > self.limits.idle_timeout_s
        lingered = self.received - self._before_lingering
        return self._phase is Phase.LINGERING and (now - self._since > LINGER_S or lingered > LINGER_BYTES)

    def _last_moved(self) -> float:
        moved = max(self.moved, self._since)
        return moved if self.upstream is None else max(moved, self.upstream.moved)

    async def _run(self) -> None:
        try:
            with contextlib.suppress(Broken):
                await self._serve(self)
        except asyncio.CancelledError:
            if self.stopped is None:
                raise
        finally:
            self.enter(Phase.CLOSING)
            self.close()
            if self.upstream is not None:
                self.upstream.abort()
