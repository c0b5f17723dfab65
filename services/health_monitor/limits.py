"""Holds sandboxes to what the kernel does not: the disk, the clock, and idleness."""

import asyncio
import logging

from contracts.errors import ClocheError, Conflict
from contracts.state import SandboxState, Status
from infra import clock
from services.health_monitor.activity import Activity
from services.health_monitor.decide import Excess, beyond_disk, beyond_idle, beyond_time
from services.health_monitor.leases import Leases
from services.health_monitor.lives import Life, Lives
from services.health_monitor.told import HealthLog

logger = logging.getLogger(__name__)

TICK_S = 1.0
CONFLICTS_TOLERATED = 8


class Limits:
    def __init__(self, *, lives: Lives, log: HealthLog, leases: Leases, activity: Activity) -> None:
        self._lives = lives
        self._log = log
        self._leases = leases
        self._activity = activity

    async def keep_time(self, tick_s: float = TICK_S) -> None:
        """For ever: what has run for its time is stopped."""
        while True:
            now = clock.steady()
            for life in self._lives:
                if (excess := beyond_time(life.state, (now - life.began) * 1000)) is not None:
                    await self._try(life, excess)
            await asyncio.sleep(tick_s)

    async def check_disk(self, state: SandboxState, used: int) -> None:
        life = self._lives.get(state.sandbox)
        if life is not None and (excess := beyond_disk(life.state, used)) is not None:
            await self._enforce(life, excess)

    async def check_idle(self, life: Life) -> None:
        """To be called after a look. One that is paused waits for somebody, and is not idle."""
        state = life.state
        if state.spec.idle_stop_ms is None or state.status != Status.RUNNING or not life.compared:
            return
        last = await self._activity.last(state)
        last = last if life.busy_at is None else max(last, life.busy_at)
        excess = beyond_idle(state, (clock.steady() - last) * 1000)
        if excess is None or await self._activity.commands_run(state, life.since):
            return
        await self._enforce(life, excess)

    async def _try(self, life: Life, excess: Excess) -> None:
        try:
            await self._enforce(life, excess)
        except ClocheError as error:
            logger.warning("%s: its limit is held in a moment: %s", life.state.sandbox, error.message)

    async def _enforce(self, life: Life, excess: Excess) -> None:
        if self._leases.has(life.state):
            return
        sandbox = life.state.sandbox
        for _ in range(CONFLICTS_TOLERATED):
            told = await self._log.told(sandbox)
            said = told.is_exceeded(excess.fact.limit, life.since)
            if said or await self._log.tell(sandbox, excess.fact, knowing=told, about=life.state.instance):
                self._leases.of_excess(life.state, excess)
                return
        raise Conflict(f"others keep telling of {sandbox!r}")
