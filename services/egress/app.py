"""Egress: the only way out of a sandbox whose network is restricted."""

import asyncio
import resource

from contracts.streams import egress_consumer
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.lost_orders import LostOrders
from infra.netns.entrance import Entrance
from infra.node_name import NodeName
from infra.observing.queues import watch_queue
from infra.sandbox.providers import load_providers
from infra.secrets.store import SecretStore
from infra.service import Ready
from infra.settings import Settings
from services.egress.attaching import Tools
from services.egress.gates import Gates
from services.egress.loop import Attachments
from services.egress.routes import add_routes
from services.egress.serving import Serving
from services.egress.sharing import Connections


class EgressApp:
    name = "egress"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        with exclusive(self._settings.data, self.name, "two would want the same port in each sandbox"):
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        async with (
            open_as(settings, self.name) as bus,
            load_providers(settings.data) as providers,
            Entrance(settings.data) as entrance,
        ):
            name = NodeName(bus, settings)
            await name.held()
            journal = Journal(bus, service=self.name, node=settings.node)
            lifecycles = Lifecycles(bus)
            async with Gates(bus, journal, settings) as gates, asyncio.TaskGroup() as tasks:
                descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                serving = Serving(gates, settings.egress, SecretStore.of(settings), Connections(descriptors))
                tools = Tools(journal, providers, entrance, serving)
                attachments = Attachments(tools, tasks, lifecycles.get, gates.changed)
                tasks.create_task(gates.run())
                tasks.create_task(watch_queue(bus, egress_consumer(settings.node)))
                tasks.create_task(name.keep())
                tasks.create_task(lifecycles.follow())
                await lifecycles.caught_up.wait()
                for state in lifecycles:
                    attachments.consider(state)
                lifecycles.on_change(attachments.consider)
                broker = make_broker(bus)
                add_routes(broker, attachments, gates.handle, journal)
                await broker.start()
                tasks.create_task(LostOrders(bus, journal, egress_consumer).answer())
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def make_app(settings: Settings) -> EgressApp:
    return EgressApp(settings)
