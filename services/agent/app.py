"""The agent service: runs agents inside sandboxes, and passes on what people say to them."""

import asyncio
from functools import partial

from contracts.quotas import Quotas
from contracts.state import SandboxState, Status
from contracts.streams import agent_consumer
from infra import asking
from infra.access import open_as
from infra.bus.connection import Bus
from infra.exclusive import exclusive
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.lost_orders import LostOrders
from infra.node_name import NodeName
from infra.service import Ready
from infra.settings import Settings
from infra.usage import Usage
from services.agent.allowance import Allowance
from services.agent.handlers import Orders
from services.agent.loop import take_orders
from services.agent.runs import Runs
from services.agent.runtimes.registry import load_runtimes


class AgentApp:
    name = "agent"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def serve(self, ready: Ready) -> None:
        with exclusive(self._settings.data, self.name, "two would say everything twice"):
            await self._serve(ready)

    async def _serve(self, ready: Ready) -> None:
        settings = self._settings
        asking.source.set(f"{self.name}/{settings.node}")
        async with open_as(settings, self.name) as bus:
            name = NodeName(bus, settings)
            await name.held()
            journal = Journal(bus, service=self.name, node=settings.node)
            lifecycles = Lifecycles(bus)
            removed: set[str] = set()
            note = partial(_note_removed, removed, settings.node)
            lifecycles.on_change(note)
            async with asyncio.TaskGroup() as tasks:
                allowance = await _allowance(bus, settings.quotas, tasks)
                runs = Runs(
                    bus=bus,
                    journal=journal,
                    lifecycles=lifecycles,
                    settings=settings.agent,
                    allowance=allowance,
                    runtimes=load_runtimes(),
                    tasks=tasks,
                )
                runs.show()
                tasks.create_task(bus.keep_fresh())
                tasks.create_task(name.keep())
                tasks.create_task(lifecycles.follow())
                await lifecycles.caught_up.wait()
                lifecycles.off_change(note)
                for state in lifecycles:
                    runs.notice(state)
                    if state.node == settings.node and state.status != Status.REMOVED:
                        await runs.open(state.sandbox)
                lifecycles.on_change(runs.notice)
                orders = Orders(bus=bus, journal=journal, settings=settings.agent, allowance=allowance, runs=runs)
                tasks.create_task(take_orders(bus, agent_consumer(settings.node), orders, journal))
                tasks.create_task(LostOrders(bus, journal, agent_consumer).answer())
                ready()
                for sandbox in sorted(removed):
                    await runs.bury(sandbox)
                await asyncio.Event().wait()


async def _allowance(bus: Bus, quotas: Quotas, tasks: asyncio.TaskGroup) -> Allowance:
    if not quotas.limit_spending:
        return Allowance(None)
    usage = Usage(bus, quotas)
    tasks.create_task(usage.follow())
    await usage.caught_up.wait()
    return Allowance(usage)


def _note_removed(removed: set[str], node: str, state: SandboxState) -> None:
    if state.status == Status.REMOVED and state.node == node:
        removed.add(state.sandbox)


def make_app(settings: Settings) -> AgentApp:
    return AgentApp(settings)
