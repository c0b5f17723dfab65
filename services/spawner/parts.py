"""The parts of the spawner, and who of them needs whom."""

import asyncio
import os
from functools import partial

import msgspec

from contracts.spec import Isolation, SandboxSpec, merge
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.sandbox.base import Provider
from infra.sandbox.providers import default_isolation
from infra.sandbox.side_door import notes_on_secrets
from infra.secrets.store import SecretStore
from infra.settings import Settings
from services.spawner.admission import Admission
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
from services.spawner.unfinished import Unfinished
from services.spawner.worktrees import Worktrees


class Parts:
    """Of one node. Nothing happens before somebody sets them going."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        providers: dict[Isolation, Provider],
        tasks: asyncio.TaskGroup,
        admission: Admission,
    ) -> None:
        self.settings, self.bus = settings, bus
        self._providers, self._admission = providers, admission
        self.journal = Journal(bus, service="spawner", node=settings.node)
        self.lifecycles = Lifecycles(bus)
        self._room = Room(self.lifecycles, settings.node, providers)
        self._company = Company(
            bus=bus,
            journal=self.journal,
            settings=settings,
            room=self._room,
            tiers=providers,
            owners=partial(owners_in, self.lifecycles),
        )
        self.places = Places(self._company, self._room, patience_s=settings.capacity.wait_s)
        self.membership = Membership(bus=bus, journal=self.journal, settings=settings, company=self._company)
        self._isolation = default_isolation(providers)
        self.pool = Pool(
            providers=providers,
            specs=_pooled(settings, self._isolation),
            size=settings.pool.size,
            after_s=settings.pool.after_s,
        )
        self.worktrees = Worktrees(journal=self.journal, providers=providers)
        self._flushing, self._attaching = Flushing(bus, settings.node), Attaching(bus, settings.node)
        self._forks, self._reporter = Forks(bus, settings), Reporter(bus)
        self.unfinished = Unfinished(tasks, settings.node, self.lifecycles)
        self.spawner = self._make_spawner()
        self.unfinished.go_on, self.unfinished.is_in_hand = self.spawner.go_on, self.spawner.is_in_hand
        self.leftovers = Leftovers(self.journal, providers, self.spawner.lane)
        self.lifecycles.on_change(self.leftovers.notice)
        self.draining = self._make_draining()

    def _make_spawner(self) -> Spawner:
        return Spawner(
            journal=self.journal,
            providers=self._providers,
            default_isolation=self._isolation,
            defaults=self.settings.sandbox,
            host_env=os.environ,
            holds_secret=self.bus.redactor.holds,
            secret_notes=partial(notes_on_secrets, SecretStore.of(self.settings)),
            places=self.places,
            nodes=NodeOrders(self.journal, self._company, self.membership.news),
            node_log=self._company.log,
            admission=self._admission,
            pool=self.pool,
            reporter=self._reporter,
            worktrees=self.worktrees,
            flushing=self._flushing,
            forks=self._forks,
            attaching=self._attaching,
            recoveries=self._make_recoveries(),
        )

    def _make_recoveries(self) -> Recoveries:
        return Recoveries(
            bus=self.bus,
            journal=self.journal,
            forks=self._forks,
            flushing=self._flushing,
            attaching=self._attaching,
            pool=self.pool,
            reporter=self._reporter,
            host_env=os.environ,
            holds_secret=self.bus.redactor.holds,
            admission=self._admission,
            later=self.unfinished.later,
        )

    def _make_draining(self) -> Draining:
        return Draining(
            bus=self.bus,
            journal=self.journal,
            company=self._company,
            room=self._room,
            lifecycles=self.lifecycles,
            providers=self._providers,
            flushing=self._flushing,
            forks=self._forks,
            lane=self.spawner.lane,
        )


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
