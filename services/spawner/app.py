"""The spawner: makes, moves and ends sandboxes, and nobody else does."""

import asyncio
import logging
import os
from functools import partial

import msgspec

from contracts.errors import ClocheError
from contracts.spec import Isolation, SandboxSpec, merge
from contracts.state import Status
from contracts.streams import create_consumer, spawner_consumer
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.bus.connection import Bus
from infra.bus.strays import sweep
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.lost_orders import LostOrders
from infra.observing import catalogue
from infra.observing.queues import watch_queue
from infra.sandbox.local.uids import UidRange, set_uid_range
from infra.sandbox.providers import default_isolation, load_providers
from infra.sandbox.side_door import notes_on_secrets
from infra.secrets.store import SecretStore
from infra.service import Ready
from infra.settings import Settings
from infra.usage import Usage
from services.spawner.admission import Admission, ByQuota, Unlimited
from services.spawner.attaching import Attaching
from services.spawner.company import Company
from services.spawner.draining import Draining
from services.spawner.flushing import Flushing
from services.spawner.forks import Forks
from services.spawner.handlers import Spawner
from services.spawner.leftovers import Leftovers
from services.spawner.membership import Membership
from services.spawner.node_orders import NodeOrders
from services.spawner.placing import Places
from services.spawner.pool import Pool
from services.spawner.progress import Reporter
from services.spawner.recovering import Recoveries
from services.spawner.room import Room, owners_in
from services.spawner.routes import add_routes, take_offers
from services.spawner.unfinished import Unfinished
from services.spawner.worktrees import Worktrees

logger = logging.getLogger(__name__)


class SpawnerApp:
    name = "spawner"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        with exclusive(self._settings.data, self.name, "two would make the same sandbox twice"):
            await asyncio.to_thread(
                set_uid_range, self._settings.data, UidRange(self._settings.first_uid, self._settings.last_uid)
            )
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        async with open_as(settings, self.name) as bus, load_providers(settings.data) as providers:
            journal = Journal(bus, service=self.name, node=settings.node)
            lifecycles = Lifecycles(bus)
            room = Room(lifecycles, settings.node, providers, settings.max_sandboxes)
            company = Company(
                bus=bus,
                journal=journal,
                settings=settings,
                room=room,
                tiers=providers,
                owners=partial(owners_in, lifecycles),
            )
            places = Places(company, room, patience_s=settings.capacity.wait_s)
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
                admission = await _admission(bus, settings, tasks)
                unfinished = Unfinished(tasks, settings.node, lifecycles)
                membership = Membership(bus=bus, journal=journal, settings=settings, company=company)
                spawner = Spawner(
                    journal=journal,
                    providers=providers,
                    default_isolation=isolation,
                    defaults=settings.sandbox,
                    host_env=os.environ,
                    holds_secret=bus.redactor.holds,
                    secret_notes=partial(notes_on_secrets, SecretStore.of(settings)),
                    is_full=room.is_full,
                    places=places,
                    nodes=NodeOrders(journal, company, membership.news),
                    admission=admission,
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
                        is_full=room.is_full,
                        admission=admission,
                        later=unfinished.later,
                    ),
                )
                unfinished.go_on, unfinished.is_in_hand = spawner.go_on, spawner.is_in_hand
                leftovers = Leftovers(journal, providers, spawner.lane)
                draining = Draining(
                    bus=bus,
                    journal=journal,
                    company=company,
                    room=room,
                    lifecycles=lifecycles,
                    providers=providers,
                    flushing=flushing,
                    forks=forks,
                    lane=spawner.lane,
                )
                lifecycles.on_change(leftovers.notice)
                tasks.create_task(lifecycles.follow())
                await lifecycles.caught_up.wait()
                # Before anything else: whoever was taken for gone must know.
                await membership.begin(lifecycles, draining)
                tasks.create_task(pool.keep_filled())
                tasks.create_task(unfinished.find())
                tasks.create_task(leftovers.give_way())
                tasks.create_task(leftovers.sweep(settings.intervals.leftovers_s))
                tasks.create_task(_sweep_strays(bus, journal, settings.intervals.sweep_s))
                _show(tasks, lifecycles, pool, settings)
                for spec in (create_consumer(), spawner_consumer(settings.node)):
                    tasks.create_task(watch_queue(bus, spec))
                broker = make_broker(bus)
                add_routes(broker, spawner, worktrees, journal)
                await broker.start()
                tasks.create_task(take_offers(bus, spawner, journal, places.hold_back_s))
                tasks.create_task(LostOrders(bus, journal, spawner_consumer).answer())
                tasks.create_task(membership.keep())
                tasks.create_task(draining.keep())
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def _show(tasks: asyncio.TaskGroup, lifecycles: Lifecycles, pool: Pool, settings: Settings) -> None:
    tasks.create_task(catalogue.sandboxes_limit.show(lambda: settings.max_sandboxes))
    tasks.create_task(catalogue.pool_ready.show(lambda: pool.ready))

    def count(status: Status) -> int:
        return sum(state.status == status and state.node == settings.node for state in lifecycles)

    for status in Status:
        if status is not Status.REMOVED:
            tasks.create_task(catalogue.sandboxes.show(partial(count, status), status.value))


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


async def _admission(bus: Bus, settings: Settings, tasks: asyncio.TaskGroup) -> Admission:
    if not settings.quotas.limit_anything:
        return Unlimited()
    usage = Usage(bus, settings.quotas)
    tasks.create_task(usage.follow())
    await usage.caught_up.wait()
    return ByQuota(usage)


async def _sweep_strays(bus: Bus, journal: Journal, every_s: float) -> None:
    while True:
        try:
            await sweep(bus, journal.dead_letter)
        except ClocheError as error:
            logger.warning("the sweep is tried again: %s", error.message)
        await asyncio.sleep(every_s)


def make_app(settings: Settings) -> SpawnerApp:
    return SpawnerApp(settings)
