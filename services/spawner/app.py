"""The spawner: makes, moves and ends sandboxes, and nobody else does."""

import asyncio
import logging
from functools import partial

from contracts.errors import ClocheError
from contracts.state import Status
from contracts.streams import create_consumer, node_consumers, shared_consumers, spawner_consumer
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.bus.connection import Bus
from infra.bus.strays import sweep
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lost_orders import LostOrders
from infra.node_name import NodeName
from infra.observing import catalogue
from infra.observing.disk import watch_disk
from infra.observing.nodes import watch_nodes
from infra.observing.queues import watch_ages, watch_queue
from infra.sandbox.local.uids import UidRange, set_uid_range
from infra.sandbox.providers import load_providers
from infra.service import Ready
from infra.settings import Settings
from infra.usage import Usage
from services.spawner.admission import Admission, ByQuota, Unlimited
from services.spawner.parts import Parts
from services.spawner.routes import add_routes, take_offers

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
        async with (
            open_as(settings, self.name) as bus,
            load_providers(settings.data) as providers,
            asyncio.TaskGroup() as tasks,
        ):
            parts = Parts(settings, bus, providers, tasks, await _admission(bus, settings, tasks))
            tasks.create_task(parts.lifecycles.follow())
            await parts.lifecycles.caught_up.wait()
            # Before anything else: whoever was taken for gone, or has a name that is not its own, must know.
            await parts.membership.begin(parts.lifecycles, parts.draining)
            name = NodeName(bus, settings)
            await name.held()
            tasks.create_task(name.keep())
            _keep_house(parts, tasks)
            _show(parts, tasks)
            broker = make_broker(bus)
            add_routes(broker, parts.spawner, parts.worktrees, parts.journal)
            await broker.start()
            _take_orders(parts, tasks)
            try:
                ready()
                await asyncio.Event().wait()
            finally:
                await broker.stop()


def _keep_house(parts: Parts, tasks: asyncio.TaskGroup) -> None:
    intervals = parts.settings.intervals
    tasks.create_task(parts.pool.keep_filled())
    tasks.create_task(parts.unfinished.find())
    tasks.create_task(parts.leftovers.give_way())
    tasks.create_task(parts.leftovers.sweep(intervals.leftovers_s))
    tasks.create_task(_sweep_strays(parts.bus, parts.journal, intervals.sweep_s))


def _take_orders(parts: Parts, tasks: asyncio.TaskGroup) -> None:
    patience_s = parts.settings.capacity.wait_s
    offers = take_offers(
        parts.bus, parts.spawner.handle, parts.journal, hold_back_s=parts.places.hold_back_s, patience_s=patience_s
    )
    tasks.create_task(offers)
    tasks.create_task(LostOrders(parts.bus, parts.journal, spawner_consumer).answer())
    tasks.create_task(parts.membership.keep())
    tasks.create_task(parts.draining.keep())


def _show(parts: Parts, tasks: asyncio.TaskGroup) -> None:
    settings, lifecycles = parts.settings, parts.lifecycles
    tasks.create_task(catalogue.sandboxes_limit.show(lambda: settings.max_sandboxes))
    tasks.create_task(catalogue.pool_ready.show(lambda: parts.pool.ready))
    for spec in (create_consumer(), spawner_consumer(settings.node)):
        tasks.create_task(watch_queue(parts.bus, spec))
    tasks.create_task(watch_ages(parts.bus, (*shared_consumers(), *node_consumers(settings.node))))
    tasks.create_task(watch_nodes(parts.bus))
    tasks.create_task(watch_disk(settings.data))

    def count(status: Status) -> int:
        return sum(state.status == status and state.node == settings.node for state in lifecycles)

    for status in Status:
        if status is not Status.REMOVED:
            tasks.create_task(catalogue.sandboxes.show(partial(count, status), status.value))


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
