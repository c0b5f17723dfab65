"""The guardian: looks at everything that happens, says what it finds, and acts where the settings say so."""

import asyncio

from contracts.guardian import Mode
from infra.access import open_as
from infra.bus import reader
from infra.bus.connection import Bus
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.observing.lag import watch_lag
from infra.service import Ready
from infra.settings import Settings
from services.guardian.engine import Engine, bind, filters
from services.guardian.handlers import Teller
from services.guardian.loop import Patrol, told_since
from services.guardian.marks import Marks


class GuardianApp:
    name = "guardian"

    def __init__(self, settings: Settings) -> None:
        """Raises `Invalid` for a pattern that is none."""
        self._settings = settings
        self._rules = bind(settings.guardian)

    async def serve(self, ready: Ready) -> None:
        with exclusive(self._settings.data, self.name, "two would do everything twice"):
            async with open_as(self._settings, self.name) as bus:
                await (self._sleep(bus, ready) if self._settings.guardian.mode is Mode.OFF else self._watch(bus, ready))

    async def _sleep(self, bus: Bus, ready: Ready) -> None:
        journal = Journal(bus, service=self.name, node=self._settings.node)
        await Marks(bus, journal, self._settings.guardian).look_away((await reader.bounds(bus)).last)
        ready()
        await asyncio.Event().wait()

    async def _watch(self, bus: Bus, ready: Ready) -> None:
        settings = self._settings.guardian
        journal = Journal(bus, service=self.name, node=self._settings.node)
        marks = Marks(bus, journal, settings)
        head = (await reader.bounds(bus)).last
        mark = await marks.resume(head)
        ready()
        teller = Teller(bus, journal, settings.mode, await told_since(bus, mark.sequence))
        engine = Engine(self._rules, learns=True, shadow=settings.mode is Mode.SHADOW, since_ms=mark.at_ms)
        patrol = Patrol(bus, engine, teller, marks, mark)
        await patrol.catch_up(head)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(patrol.follow())
            tasks.create_task(patrol.keep_time())
            tasks.create_task(watch_lag(self.name, bus, filters(engine.wanted), lambda: patrol.position))


def make_app(settings: Settings) -> GuardianApp:
    return GuardianApp(settings)
