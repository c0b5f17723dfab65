"""Replay: the read model, and answers about the present and the past."""

import asyncio
from contextlib import AsyncExitStack

from contracts import streams
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.journal import Journal
from infra.observing.store import watch_store
from infra.service import Ready
from infra.settings import Settings
from services.replay.archive.imports import open_imports
from services.replay.archive.routes import served_place
from services.replay.audit.part import AuditPart
from services.replay.expiring import Expiring
from services.replay.files import FilesInTime
from services.replay.handlers import Historian
from services.replay.past.part import PastStates
from services.replay.playing.orders import ReplayOrders
from services.replay.playing.stage import Stage
from services.replay.present import Present
from services.replay.quotas import QuotasInUse
from services.replay.read_model import ReadModel
from services.replay.rebuilding import Rebuilder
from services.replay.routes import add_routes, take_orders
from services.replay.screens.part import Screens


class ReplayApp:
    name = "replay"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def stand_by(self) -> None:
        """While the replay of another node serves. Until cancelled."""
        async with open_as(self._settings, self.name) as bus:
            await AuditPart(bus, self._settings, self._journal(bus)).stand_by()

    def _journal(self, bus: Bus) -> Journal:
        return Journal(bus, service=self.name, node=self._settings.node)

    async def serve(self, ready: Ready) -> None:
        async with open_as(self._settings, self.name) as bus, AsyncExitStack() as closed_with:
            model = ReadModel(bus, look_s=self._settings.intervals.leftovers_s)
            await model.restore()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(model.run())
                tasks.create_task(watch_store(bus))
                past = PastStates(bus, self._settings, model.projection)
                tasks.create_task(past.run())
                screens = Screens(bus, self._settings, past.answers()["state"])
                rebuilder = Rebuilder(model, [past.forget, screens.forget], tasks=tasks)
                stage = Stage(bus, Bucket(bus, streams.REPLAYS_BUCKET), self._settings.replay, screens.together)
                tasks.create_task(stage.run())
                journal = self._journal(bus)
                audit = AuditPart(bus, self._settings, journal)
                tasks.create_task(audit.run())
                tasks.create_task(Expiring(bus, self._settings.retention).run())
                imports = await closed_with.enter_async_context(open_imports(bus))
                broker = make_broker(bus)
                historian = Historian(
                    Present(bus, model.projection).answers(),
                    past.answers(),
                    screens.answers(),
                    rebuilder.answers(),
                    FilesInTime(bus).answers(),
                    stage.answers(),
                    imports.answers(),
                    audit.answers(),
                    QuotasInUse(bus, self._settings.quotas, tasks).answers(),
                )
                add_routes(broker, historian)
                await closed_with.enter_async_context(served_place(bus, historian, imports.place))
                await broker.start()
                orders = {"replay": ReplayOrders(bus, stage).handle, "audit": audit.handle}
                tasks.create_task(take_orders(bus, journal, orders))
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def make_app(settings: Settings) -> ReplayApp:
    return ReplayApp(settings)
