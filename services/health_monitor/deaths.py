"""Says once of each death how it came, and asks for what is to follow."""

import datetime
import logging

import msgspec

from contracts.errors import Conflict
from contracts.events.health import DeathCause, HealthDied
from contracts.state import SandboxState
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.observing import catalogue
from infra.sandbox.base import End
from services.health_monitor.decide import ALIVE, Ending, death
from services.health_monitor.last_output import last_output
from services.health_monitor.leases import Leases
from services.health_monitor.lives import Life
from services.health_monitor.told import HealthLog, Told

logger = logging.getLogger(__name__)

CONFLICTS_TOLERATED = 8


class Deaths:
    """`booted` is when this machine was started."""

    def __init__(self, bus: Bus, journal: Journal, log: HealthLog, leases: Leases, booted: datetime.datetime) -> None:
        self._bus = bus
        self._journal = journal
        self._log = log
        self._leases = leases
        self._booted = booted

    async def tell(self, life: Life, ending: Ending) -> None:
        """Whoever is the first to say it; the others find it said. Raises `Conflict` when they keep saying things."""
        for _ in range(CONFLICTS_TOLERATED):
            state = await self._journal.lifecycle(life.state.sandbox)
            if state is None or not self._is_of(life, state):
                return
            told = await self._log.told(state.sandbox)
            if self._goes_on(life, told):
                return
            fact = await self._fact(life, state, ending, told)
            if await self._log.tell(state.sandbox, fact, knowing=told, about=state.instance):
                catalogue.deaths.add(fact.cause.value)
        raise Conflict(f"others keep telling of {life.state.sandbox!r}")

    async def goes_on(self, life: Life) -> bool:
        """Whether this death is told already; then what was asked for because of it is asked for until it is done."""
        return self._goes_on(life, await self._log.told(life.state.sandbox))

    def _goes_on(self, life: Life, told: Told) -> bool:
        if told.died is None or told.died_at is None or told.died.instance != life.state.instance:
            return False
        self._leases.of_death(life.state, told.died, told.died_at)
        return True

    def _is_of(self, life: Life, state: SandboxState) -> bool:
        same = state.instance == life.state.instance and state.node == self._journal.node
        return same and state.status in ALIVE

    async def _fact(self, life: Life, state: SandboxState, ending: Ending, told: Told) -> HealthDied:
        over_disk = told.is_exceeded("disk", life.since)
        fact = death(state, ending, now=clock.now(), booted=self._booted, over_disk=over_disk)
        return msgspec.structs.replace(fact, last_output=await last_output(self._bus, state.sandbox, life.since))


def ending_of(end: End) -> Ending:
    return Ending(DeathCause(end.cause), end.detail, end.exit_code, end.signal, end.looked_at)
