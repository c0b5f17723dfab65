"""The executor: runs commands through the keeper, every byte of them on the log; and works on files."""

import asyncio

from contracts.spec import Isolation
from contracts.state import SandboxState, Status
from contracts.streams import executor_consumer
from infra.access import open_as
from infra.bus.broker import make_broker
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.lost_orders import LostOrders
from infra.node_name import NodeName
from infra.sandbox.providers import load_providers
from infra.service import Ready
from infra.settings import Settings
from services.executor.attachments import Attachments
from services.executor.files import FileTools
from services.executor.handlers import Executor
from services.executor.loop import take_orders
from services.executor.memory import Memory
from services.executor.orphans import Orphans
from services.executor.ownership import Ownership
from services.executor.places import Places
from services.executor.routes import add_routes
from services.executor.tool_calls import ToolCalls


class ExecutorApp:
    name = "executor"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        settings = self._settings
        with exclusive(settings.data, self.name, "two would publish the same commands"):
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        async with open_as(settings, self.name) as bus, load_providers(settings.data) as providers:
            name = NodeName(bus, settings)
            await name.held()
            journal = Journal(bus, service=self.name, node=settings.node)
            lifecycles = Lifecycles(bus)
            memory = Memory(lifecycles, providers)
            ownership = Ownership(bus, journal, lifecycles)
            attachments = Attachments(settings, bus, journal, lifecycles, ownership, memory)
            orphans = Orphans(bus, journal, attachments)
            lifecycles.on_change(ownership.notice)
            lifecycles.on_change(attachments.give_way)
            lifecycles.on_change(orphans.notice)
            executor = Executor(
                bus=bus,
                journal=journal,
                lifecycles=lifecycles,
                providers=providers,
                attachments=attachments,
                memory=memory,
            )
            places = Places(journal=journal, lifecycles=lifecycles, providers=providers)
            tools = FileTools(data=settings.data, places=places, calls=ToolCalls(journal))
            async with tools, asyncio.TaskGroup() as tasks:
                tasks.create_task(bus.keep_fresh())
                tasks.create_task(name.keep())
                tasks.create_task(lifecycles.follow())
                tasks.create_task(attachments.hold())
                await lifecycles.caught_up.wait()
                await attachments.ready.wait()
                for state in lifecycles:
                    _get_ready(tasks, executor, state, settings.node)
                lifecycles.on_change(lambda state: _get_ready(tasks, executor, state, settings.node))
                tasks.create_task(take_orders(bus, executor_consumer(settings.node), executor, journal))
                tasks.create_task(LostOrders(bus, journal, executor_consumer).answer())
                tasks.create_task(orphans.end())
                tasks.create_task(tools.copies.sweep())
                broker = make_broker(bus)
                add_routes(broker, tools, settings.node)
                await broker.start()
                try:
                    ready()
                    await asyncio.Event().wait()
                finally:
                    await broker.stop()


def _get_ready(tasks: asyncio.TaskGroup, executor: Executor, state: SandboxState, node: str) -> None:
    if state.node == node and state.status == Status.RUNNING and state.isolation != Isolation.LOCAL:
        tasks.create_task(executor.get_ready(state))


def make_app(settings: Settings) -> ExecutorApp:
    return ExecutorApp(settings)
