"""This node among the others: it joins, shows signs of life, and looks after what became of the rest."""

from importlib import metadata

from contracts.errors import Conflict
from contracts.events.node import NodeJoined
from contracts.nodes import Standing
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.settings import Settings
from services.spawner.company import Company
from services.spawner.draining import Draining
from services.spawner.losing import Losing


class Membership:
    def __init__(self, *, bus: Bus, journal: Journal, settings: Settings, company: Company) -> None:
        self._bus = bus
        self._journal = journal
        self._settings = settings
        self._company = company
        self._losing: Losing | None = None
        self._draining: Draining | None = None

    async def begin(self, lifecycles: Lifecycles, draining: Draining) -> None:
        """The log knows of this node, and this node what the log says of it. Raises `Unavailable`."""
        self._draining = draining
        self._losing = Losing(
            bus=self._bus,
            journal=self._journal,
            company=self._company,
            lifecycles=lifecycles,
            lost_after_s=self._settings.capacity.lost_after_s,
        )
        await self._company.look()
        if self._company.own.standing is Standing.LOST:
            await self._losing.come_back()
        elif self._company.own.standing is Standing.UNKNOWN and self._settings.url is not None:
            await self._join()

    async def _join(self) -> None:
        """Whoever has a server of its own is the only node there is: the log of such a one says nothing of nodes."""
        vitals = self._company.here().vitals
        joined = NodeJoined(
            node=self._journal.node, labels=vitals.labels, tiers=vitals.tiers, version=metadata.version("cloche")
        )
        try:
            await self._company.log.tell(self._journal, self._journal.node, joined)
        except Conflict:
            await self._company.look()

    def news(self) -> None:
        """The log says something new of this node."""
        if self._draining is not None:
            self._draining.changed.set()

    async def keep(self) -> None:
        """For ever."""
        assert self._losing is not None
        await self._company.keep_telling(self._losing.look)
