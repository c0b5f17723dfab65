"""The spawner: makes, moves and ends sandboxes, and nobody else does."""

import asyncio
import logging
import os
from functools import partial

import msgspec

from contracts.errors import ClocheError
from contracts.spec import Isolation, SandboxSpec, merge
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.bus.connection import Bus
from infra.bus.strays import sweep
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.sandbox.providers import default_isolation, load_providers
from infra.sandbox.side_door import notes_on_secrets
from infra.secrets.store import SecretStore
from infra.service import Ready
from infra.settings import Settings
from services.spawner.attaching import Attaching
from services.spawner.flushing import Flushing
from services.spawner.forks import Forks
from services.spawner.handlers import Spawner
from services.spawner.leftovers import Leftovers
from services.spawner.pool import Pool
from services.spawner.progress import Reporter
from services.spawner.recovering import Recoveries
from services.spawner.room import room_of
from services.spawner.routes import add_routes
from services.spawner.unfinished import Unfinished
from services.spawner.worktrees import Worktrees

logger = logging.getLogger(__name__)


class SpawnerApp:
    name = "spawner"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        with exclusive(self._settings.data, self.name, "two would make the same sandbox twice"):
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        async with open_as(settings, self.name) as bus, load_providers(settings.data) as providers:
            journal = Journal(bus, service=self.name, node=settings.node)
            lifecycles = Lifecycles(bus)
            is_full = room_of(lifecycles, settings.node, providers, settings.max_sandboxes)
            isolation = default_isolation(providers)
            pool = Pool(
                providers=providers,
                specs=_pooled(settings, isolation),
                size=settings.pool.size,
                after_s=settings.pool.after_s,
            )
            worktrees = Worktrees(journal=journal, providers=providers)
            flushing, forks, reporter = Flushing(bus, settings.node), Forks(bus, settings), Reporter(bus)
            attaching = Attaching(bus, settings.node)
            async with asyncio.TaskGroup() as tasks:
                unfinished = Unfinished(tasks, settings.node, lifecycles)
                spawner = Spawner(
                    journal=journal,
                    providers=providers,
                    default_isolation=isolation,
                    defaults=settings.sandbox,
                    host_env=os.environ,
                    holds_secret=bus.redactor.holds,
                    secret_notes=partial(notes_on_secrets, SecretStore.of(settings)),
                    is_full=is_full,
                    pool=pool,
                    reporter=reporter,
                    worktrees=worktrees,
                    flushing=flushing,
                    forks=forks,
                    attaching=attaching,
                    recoveries=Recoveries(
                        bus=bus,
                        journal=journal,
                        forks=forks,
                        flushing=flushing,
                        attaching=attaching,
                        pool=pool,
                        reporter=reporter,
                        host_env=os.environ,
                        holds_secret=bus.redactor.holds,
                        is_full=is_full,
                        later=unfinished.later,
                    ),
                )
                unfinished.go_on, unfinished.is_in_hand = spawner.go_on, spawner.is_in_hand
                leftovers = Leftovers(journal, providers, spawner.lane)
                lifecycles.on_change(leftovers.notice)
                tasks.create_task(lifecycles.follow())
                await lifecycles.caught_up.wait()
                tasks.create_task(pool.keep_filled())
                tasks.create_task(unfinished.find())
                tasks.create_task(leftovers.give_way())
                tasks.create_task(leftovers.sweep(settings.intervals.leftovers_s))
                tasks.create_task(_sweep_strays(bus, journal, settings.intervals.sweep_s))
                broker = make_broker(bus)
                add_routes(broker, spawner, worktrees, journal)
                await broker.start()
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def _pooled(settings: Settings, isolation: Isolation) -> list[SandboxSpec]:
    """The default specification, and those that the settings lay over it, with empty workspaces. Raises `Invalid`."""
    laid = [merge(settings.sandbox, msgspec.json.encode(each)) for each in ({}, *settings.pool.specs)]
    return [
        msgspec.structs.replace(
            spec,
            isolation=spec.isolation or isolation,
            workspace=msgspec.structs.replace(spec.workspace, source=None),
        )
        for spec in laid
    ]


async def _sweep_strays(bus: Bus, journal: Journal, every_s: float) -> None:
    while True:
        try:
            await sweep(bus, journal.dead_letter)
        except ClocheError as error:
            logger.warning("the sweep is tried again: %s", error.message)
        await asyncio.sleep(every_s)


def make_app(settings: Settings) -> SpawnerApp:
    return SpawnerApp(settings)
