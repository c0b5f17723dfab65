"""Signs of life: they may be lost, and are never part of the truth."""

import logging

from contracts import subjects
from contracts.errors import Unavailable
from contracts.events.health import VitalsHeartbeat, VitalsMetrics
from contracts.message import Fact
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal

logger = logging.getLogger(__name__)


class Vitals:
    def __init__(self, bus: Bus, journal: Journal) -> None:
        self._bus = bus
        self._journal = journal

    async def tell(self, sandbox: str, beat: VitalsHeartbeat, metrics: VitalsMetrics | None) -> None:
        await self._send(sandbox, "heartbeat", beat)
        if metrics is not None:
            await self._send(sandbox, "metrics", metrics)

    async def _send(self, sandbox: str, kind: str, fact: Fact) -> None:
        now = clock.now()
        written = self._journal.write(sandbox, fact, id=f"{sandbox}.{kind}.{now.timestamp():.6f}", time=now)
        try:
            await self._bus.tell(subjects.vitals(sandbox, kind), written.payload)
        except Unavailable:
            logger.debug("%s: nobody hears its %s", sandbox, kind)
