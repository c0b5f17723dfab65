"""One look at one sandbox, and what is said because of it."""

import asyncio
import logging
from collections.abc import Mapping

from contracts.errors import ClocheError
from contracts.events.health import HealthHealthy, HealthUnhealthy, VitalsHeartbeat, VitalsMetrics
from contracts.message import Fact
from contracts.spec import Isolation
from contracts.state import SandboxState
from infra import clock
from infra.sandbox.base import Provider, Use
from services.health_monitor.deaths import Deaths, ending_of
from services.health_monitor.decide import Judgement, Seen, Verdict, judge
from services.health_monitor.disks import Disks
from services.health_monitor.limits import Limits
from services.health_monitor.lives import Life, Lives, Sample
from services.health_monitor.told import HealthLog
from services.health_monitor.vitals import Vitals

logger = logging.getLogger(__name__)

LOOK_S = 10.0
"""What has not answered for so long is not well."""
ILL_LOOKS = 2
"""One look may fail for a reason of its own."""
BUSY_PERCENT = 1.0
"""Of a CPU: less is what being looked at costs."""
SHORT_S = 0.2
"""Over less, CPU time says nothing."""
REASON = 1000


class Looking:
    def __init__(
        self,
        *,
        lives: Lives,
        providers: Mapping[Isolation, Provider],
        log: HealthLog,
        deaths: Deaths,
        limits: Limits,
        disks: Disks,
        vitals: Vitals,
    ) -> None:
        self._lives = lives
        self._providers = providers
        self._log = log
        self._deaths = deaths
        self._limits = limits
        self._disks = disks
        self._vitals = vitals

    async def look(self, state: SandboxState) -> bool:
        """Whether all is well. Raises `ClocheError` where the log cannot be asked or written."""
        life = self._lives.get(state.sandbox)
        if life is None or await self._deaths.goes_on(life):
            return True
        try:
            async with asyncio.timeout(LOOK_S):
                seen = await self._seen(life)
        except (ClocheError, OSError, TimeoutError) as error:
            words = str(error) or f"it did not answer within {LOOK_S:g} s"
            return await self._act(life, None, Judgement(Verdict.ILL, words))
        return await self._act(life, seen, judge(life.state, seen, self._odd_for_s(life)))

    async def _seen(self, life: Life) -> Seen | None:
        seen = await self._providers[life.state.isolation].inspect(life.state.sandbox)
        if seen is None:
            return None
        ending = None if seen.end is None else ending_of(seen.end)
        return Seen(str(seen.state), seen.instance, seen.detail, ending, seen.pid)

    def _odd_for_s(self, life: Life) -> float:
        return 0.0 if life.odd_since is None else clock.steady() - life.odd_since

    async def _act(self, life: Life, seen: Seen | None, judgement: Judgement) -> bool:
        life.odd_since = (life.odd_since or clock.steady()) if judgement.verdict == Verdict.ODD else None
        life.ill_looks = life.ill_looks + 1 if judgement.verdict == Verdict.ILL else 0
        if judgement.verdict == Verdict.DEAD and judgement.ending is not None:
            await self._deaths.tell(life, judgement.ending)
        elif judgement.verdict == Verdict.WELL and seen is not None:
            await self._turned(life, "healthy", HealthHealthy(reason=judgement.reason))
            await self._well(life, seen)
            return True
        elif life.ill_looks >= ILL_LOOKS:
            await self._turned(life, "unhealthy", HealthUnhealthy(reason=judgement.reason[:REASON]))
        return False

    async def _turned(self, life: Life, to: str, fact: Fact) -> None:
        """Said when it changes, and never again until it changes back."""
        sandbox = life.state.sandbox
        while (told := await self._log.told(sandbox)).of_life(life.since) not in (to, "died"):
            await self._log.tell(sandbox, fact, knowing=told, about=life.state.instance)

    async def _well(self, life: Life, seen: Seen) -> None:
        sandbox = life.state.sandbox
        self._disks.add(sandbox)
        metrics = None if seen.pid is None else await self._measure(life, seen.pid)
        # Both at once: what is sent costs less together.
        await self._vitals.tell(sandbox, VitalsHeartbeat(status=seen.state), metrics)
        await self._limits.check_idle(life)

    async def _measure(self, life: Life, pid: int) -> VitalsMetrics | None:
        """None as long as nobody knows its disk."""
        sandbox = life.state.sandbox
        try:
            async with asyncio.timeout(LOOK_S):
                use = await self._providers[life.state.isolation].use(sandbox, pid)
        except (ClocheError, OSError, TimeoutError) as error:
            logger.info("%s: its use is not known: %s", sandbox, error)
            return None
        percent, disk = self._cpu_percent(life, use), self._disks.of(sandbox)
        return None if disk is None else _metrics(use, percent, disk)

    def _cpu_percent(self, life: Life, use: Use) -> float:
        """Since the last look; at the first one, since it was started."""
        now = clock.steady()
        before = life.sample or Sample(life.began, 0.0)
        seconds = now - before.at
        if seconds < SHORT_S:
            return 0.0
        percent = max(use.cpu_seconds - before.cpu_seconds, 0.0) / seconds * 100
        life.compared = life.sample is not None
        life.sample = Sample(now, use.cpu_seconds)
        if life.compared and percent >= BUSY_PERCENT:
            life.busy_at = now
        return percent


def _metrics(use: Use, percent: float, disk_bytes: int) -> VitalsMetrics:
    return VitalsMetrics(
        cpu_percent=round(percent, 2),
        memory_bytes=use.memory_bytes,
        processes=use.pids,
        disk_bytes=disk_bytes,
        network_in_bytes=use.network_in_bytes,
        network_out_bytes=use.network_out_bytes,
    )
