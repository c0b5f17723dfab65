"""The guardian: looks at everything that happens, says what it finds, and acts where the settings say so."""

import asyncio

from contracts.guardian import Mode
from infra.access import open_as
from infra.bus import reader
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.service import Ready
from infra.settings import Settings
from services.guardian.engine import Engine, bind
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
        if self._settings.guardian.mode is Mode.OFF:
            ready()
            await asyncio.Event().wait()
        with exclusive(self._settings.data, self.name, "two would do everything twice"):
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        async with open_as(settings, self.name) as bus:
            journal = Journal(bus, service=self.name, node=settings.node)
            marks = Marks(bus, journal, settings.guardian)
            head = (await reader.bounds(bus)).last
            judged = await marks.resume(head)
            ready()
            told = await told_since(bus, judged)
            teller = Teller(bus, journal, settings.guardian.mode, told)
            patrol = Patrol(bus, Engine(self._rules, learns=True), teller, marks, judged)
            await patrol.catch_up(head)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(patrol.follow())
                tasks.create_task(patrol.keep_time())


def make_app(settings: Settings) -> GuardianApp:
    return GuardianApp(settings)
