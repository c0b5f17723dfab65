"""This node among the others: it joins, shows signs of life, and looks after what became of the rest."""

import asyncio
from importlib import metadata

from contracts.errors import Conflict
from contracts.events.node import NodeDraining, NodeJoined
from contracts.node_names import Claim, claim_on, held_by_another, shown_by_another
from contracts.nodes import Standing, silence_s
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.wearing import is_worn
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.node_identity import make_identity
from infra.settings import Settings
from services.spawner.company import Company
from services.spawner.draining import Draining
from services.spawner.losing import Losing

LOOK_S = 0.5


class Membership:
    def __init__(self, *, bus: Bus, journal: Journal, settings: Settings, company: Company) -> None:
        self._bus = bus
        self._journal = journal
        self._settings = settings
        self._company = company
        self._losing: Losing | None = None
        self._draining: Draining | None = None

    async def begin(self, lifecycles: Lifecycles, draining: Draining) -> None:
        """The log knows of this node, and this node what the log says of it.

        Raises `NodeNameTaken` when the name is another host's, `Invalid`, `Unavailable`.
        """
        self._draining = draining
        self._losing = Losing(
            bus=self._bus,
            journal=self._journal,
            company=self._company,
            lifecycles=lifecycles,
            lost_after_s=self._settings.capacity.lost_after_s,
        )
        await self._company.look()
        own = self._company.own
        identity = self._company.identity = await asyncio.to_thread(make_identity, self._settings.host_data)
        if own.standing is Standing.LOST and own.identity in ("", identity):
            await self._losing.come_back()
        # Whoever has a server of its own is the only node there is: the log of such a one says nothing of nodes.
        if self._settings.url is not None:
            await self._claim(identity)

    async def _claim(self, identity: str) -> None:
        """The log says that the name is this host's. Raises `NodeNameTaken` where it is another's."""
        if not self._company.own.identity:
            await self._listen(identity)
        while (claim := claim_on(self._company.own, identity, self._settings.take_over)) is Claim.FREE:
            try:
                await self._join(identity)
            except Conflict:
                await self._company.look()
        if claim is Claim.ANOTHERS:
            raise held_by_another(self._company.own)

    async def _listen(self, identity: str) -> None:
        """Of a host from before there were identities, or with a server of its own, there is nothing but its signs.

        Raises `NodeNameTaken` when another shows a new one under this name. This host's own last is only waited out.
        """
        loop, before = asyncio.get_running_loop(), self._company.own_sign
        if before is None or before.vitals.identity == identity:
            return
        until = loop.time() + silence_s(before.vitals.every_s)
        while loop.time() < until:
            await asyncio.sleep(min(before.vitals.every_s, LOOK_S))
            await self._company.look()
            sign = self._company.own_sign
            if sign is not None and sign.entry.seq != before.entry.seq:
                raise shown_by_another(self._journal.node)

    async def _join(self, identity: str) -> None:
        vitals = self._company.here().vitals
        joined = NodeJoined(
            node=self._journal.node,
            labels=vitals.labels,
            tiers=vitals.tiers,
            version=metadata.version("cloche"),
            identity=identity,
        )
        await self._company.log.tell(self._journal, self._journal.node, joined, identity=identity)

    def news(self) -> None:
        """The log says something new of this node."""
        if self._draining is not None:
            self._draining.changed.set()

    async def keep(self) -> None:
        """For ever."""
        await self._company.keep_telling(self._look)

    async def _look(self) -> None:
        assert self._losing is not None
        await self._losing.look()
        await self._stay_known()

    async def _stay_known(self) -> None:
        """A log with limits forgets also whose the name is, and that the node is drained: so it is told again before.

        Raises `Conflict`, `Unavailable`: the next time, then.
        """
        bounds, own = await reader.bounds(self._bus), self._company.own
        if own.standing is Standing.LOST or own.identity not in ("", self._company.identity):
            return
        if own.identity and is_worn(own.named, bounds):
            await self._join(own.identity)
        if own.standing.gives_away and is_worn(own.since, bounds):
            again = NodeDraining(node=own.node, reason=own.reason, grace_ms=own.grace_ms)
            await self._company.log.tell(self._journal, own.node, again)
            self.news()
