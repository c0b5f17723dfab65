"""The health monitor: notices what becomes of the sandboxes of its node, and is the only one who does."""

import asyncio
import datetime
import logging
from collections.abc import Mapping

from contracts.errors import ClocheError, Unavailable
from contracts.spec import Isolation
from infra.access import open_as
from infra.boot import booted_at
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.node_name import NodeName
from infra.observing.about import About, speaking_of
from infra.sandbox.base import Provider, ProviderEvent
from infra.sandbox.providers import load_providers
from infra.service import Ready
from infra.settings import Settings
from services.health_monitor.activity import Activity
from services.health_monitor.deaths import Deaths, ending_of
from services.health_monitor.disks import Disks
from services.health_monitor.leases import Leases
from services.health_monitor.limits import Limits
from services.health_monitor.lives import Life, Lives
from services.health_monitor.looking import Looking
from services.health_monitor.rounds import Rounds
from services.health_monitor.told import HealthLog
from services.health_monitor.vitals import Vitals

logger = logging.getLogger(__name__)

ANNOUNCED_AT_ONCE = 16
"""Deaths that are being told at a time: all of a node's sandboxes may die together."""


class HealthMonitorApp:
    name = "health_monitor"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        settings = self._settings
        async with open_as(settings, self.name) as bus, load_providers(settings.data) as providers:
            name = NodeName(bus, settings)
            await name.held()
            lifecycles = Lifecycles(bus)
            monitor = Monitor(bus, settings, lifecycles, providers, booted_at())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(bus.keep_fresh())
                tasks.create_task(name.keep())
                tasks.create_task(lifecycles.follow())
                await lifecycles.caught_up.wait()
                monitor.start(tasks)
                ready()


class Monitor:
    """Everything that watches, wired. `booted` is when this machine was started."""

    def __init__(
        self,
        bus: Bus,
        settings: Settings,
        lifecycles: Lifecycles,
        providers: Mapping[Isolation, Provider],
        booted: datetime.datetime,
    ) -> None:
        every_s = settings.intervals.health_s
        journal = Journal(bus, service=HealthMonitorApp.name, node=settings.node)
        self._every_s = every_s
        self._providers = providers
        self._announcing = asyncio.Semaphore(ANNOUNCED_AT_ONCE)
        self._lives = Lives(lifecycles, settings.node, providers)
        self._log = HealthLog(bus, journal)
        self._leases = Leases(bus, settings.node, lifecycles)
        self._activity = Activity(bus)
        self._deaths = Deaths(bus, journal, self._log, self._leases, booted)
        self._limits = Limits(lives=self._lives, log=self._log, leases=self._leases, activity=self._activity)
        self._disks = Disks(providers, every_s, self._limits.check_disk)
        looking = Looking(
            lives=self._lives,
            providers=providers,
            log=self._log,
            deaths=self._deaths,
            limits=self._limits,
            disks=self._disks,
            vitals=Vitals(bus, journal),
        )
        self._rounds = Rounds(every_s, self._lives.state, looking.look)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Once the past has been read: everything that should be alive is looked at, and from then on watched."""
        self._lives.tell(self._rounds.begin, self._forget)
        for provider in self._providers.values():
            tasks.create_task(self._hear(provider))
        tasks.create_task(self._rounds.walk())
        tasks.create_task(self._disks.walk(self._lives.state))
        tasks.create_task(self._limits.keep_time())
        tasks.create_task(self._leases.keep())
        tasks.create_task(self._insist())

    async def _insist(self) -> None:
        """Raises `Unavailable` where an engine came after this service: started again, it will find it."""
        while True:
            await asyncio.sleep(self._every_s)
            if tiers := self._lives.unwatched:
                raise Unavailable(f"there are {', '.join(sorted(tiers))} sandboxes here, and nobody can look at them")

    def _forget(self, sandbox: str) -> None:
        self._rounds.end(sandbox)
        self._disks.forget(sandbox)
        self._activity.forget(sandbox)
        self._log.forget(sandbox)

    async def _hear(self, provider: Provider) -> None:
        """For ever: a death is told at once. One of a life that the log has not yet is found by the look at it."""
        async with asyncio.TaskGroup() as announcements:
            async for event in provider.events():
                life = self._lives.get(event.sandbox)
                if event.kind == "died" and life is not None and life.state.instance == event.instance:
                    announcements.create_task(speaking_of(About(event.sandbox), self._announce, life, event))

    async def _announce(self, life: Life, event: ProviderEvent) -> None:
        async with self._announcing:
            try:
                await self._deaths.tell(life, ending_of(event.end))
            except ClocheError as error:
                logger.warning("%s: its death is told after the next look: %s", event.sandbox, error.message)


def make_app(settings: Settings) -> HealthMonitorApp:
    return HealthMonitorApp(settings)
