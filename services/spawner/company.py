"""The other nodes, as far as their signs of life tell; and this one's own signs of life."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection
from importlib import metadata

from contracts import subjects
from contracts.errors import ClocheError
from contracts.events.node import NodeLost, VitalsNode
from contracts.nodes import SLACK_S, Candidate, NodeRecord, Silence, is_alive
from contracts.spec import Isolation
from infra import clock
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.nodes import NodeLog, Sign, signs_of_life
from infra.settings import Settings
from services.spawner.room import Room

logger = logging.getLogger(__name__)

Look = Callable[[], Awaitable[None]]
Owners = Callable[[], Collection[str]]
LOOKS = 10
"""While a sign of life is waited for."""
LONGEST_ROUND = 2.0
"""Intervals that one round counts for at most: what took longer was no listening."""


class Company:
    def __init__(
        self,
        *,
        bus: Bus,
        journal: Journal,
        settings: Settings,
        room: Room,
        tiers: Collection[Isolation],
        owners: Owners,
    ) -> None:
        """`owners` are the nodes that have living sandboxes, by the log."""
        self._bus = bus
        self._journal = journal
        self._capacity = settings.capacity
        self._most = settings.max_sandboxes
        self._room = room
        self._owners = owners
        self._tiers = tuple(sorted(tiers))
        self._begun = clock.now()
        self.identity = ""
        """Of this host, as its signs of life tell it."""
        self._silence = Silence()
        self._signs: dict[str, Sign] = {}
        self.log = NodeLog(bus)

    @property
    def own(self) -> NodeRecord:
        return self.log.get(self._journal.node)

    @property
    def own_sign(self) -> Sign | None:
        """The newest under this node's name, whoever showed it."""
        return self._signs.get(self._journal.node)

    def here(self, *, but: str = "") -> Candidate:
        """This node, as it would be without one of its sandboxes."""
        return Candidate(self._journal.node, self._vitals(but=but))

    def others(self) -> list[Candidate]:
        """Those that show signs of life, as of the last round."""
        return [
            Candidate(node, sign.vitals)
            for node, sign in sorted(self._signs.items())
            if node != self._journal.node and self.is_alive(node)
        ]

    def is_alive(self, node: str) -> bool:
        sign = self._signs.get(node)
        return sign is not None and is_alive(self._silence.of(node, heard=sign.entry.seq), sign.vitals.every_s)

    async def misses_a_beat(self, node: str) -> bool:
        """Whether the sign of life that is due next does not come. Raises `Unavailable`."""
        wait_s = SLACK_S + (self._signs[node].vitals.every_s if node in self._signs else 0)
        heard = set()
        for _ in range(LOOKS):
            # What was on its way when it was asked is no sign of what lives now.
            await asyncio.sleep(wait_s / LOOKS)
            await self.look()
            heard.add(self._signs[node].entry.seq if node in self._signs else 0)
        return len(heard) == 1

    def silent_s(self, node: str) -> float:
        return self._silence.of(node)

    async def look(self) -> None:
        """Have the newest of everybody. Raises `Unavailable`."""
        await self.log.read()
        self._signs = await signs_of_life(self._bus)

    async def tell_lost(self, node: str, reason: str, *, command: str | None = None, by: str = "") -> None:
        """Of several who notice it, one says so. Raises `Conflict`: somebody has said something of it meanwhile."""
        lost = NodeLost(node=node, reason=reason, noticed_by=self._journal.node, by=by)
        await self.log.tell(self._journal, node, lost, command=command)
        logger.warning("node %s is taken for gone: %s", node, reason)

    async def keep_telling(self, after_each: Look) -> None:
        """For ever: a sign of life, then a look at the others, then `after_each`. What fails is done the next time."""
        loop = asyncio.get_running_loop()
        every_s = self._capacity.vitals_s
        before = loop.time()
        while True:
            try:
                await self._tell()
                await self.look()
                passed_s = min(loop.time() - before, every_s * LONGEST_ROUND)
                before = loop.time()
                heard = {node: sign.entry.seq for node, sign in self._signs.items()}
                self._silence.listened(heard, self._owners(), passed_s)
                await after_each()
            except ClocheError as error:
                logger.info("the nodes are looked at again: %s", error.message)
                before = loop.time()
            await asyncio.sleep(every_s)

    async def _tell(self) -> None:
        now = clock.now()
        node = self._journal.node
        written = self._journal.write(
            subjects.NO_SANDBOX, self._vitals(), id=f"{node}.vitals.{now.timestamp():.6f}", time=now, scope=node
        )
        await self._bus.tell(subjects.node_vitals(node), written.payload)

    def _vitals(self, *, but: str = "") -> VitalsNode:
        promised = self._room.promised(but=but)
        capacity, times = self._capacity, self._capacity.overcommit
        return VitalsNode(
            sandboxes=promised.sandboxes,
            max_sandboxes=self._most,
            memory_mb=promised.memory_mb,
            max_memory_mb=None if capacity.memory_mb is None else int(capacity.memory_mb * times),
            cpus=promised.cpus,
            max_cpus=None if capacity.cpus is None else capacity.cpus * times,
            machine_memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
            machine_cpus=os.cpu_count() or 1,
            load_average=round(os.getloadavg()[0], 2),
            labels=dict(capacity.labels),
            tiers=tuple(str(tier) for tier in self._tiers),
            version=metadata.version("cloche"),
            draining=not self.own.standing.takes_sandboxes,
            started_at=self._begun,
            every_s=capacity.vitals_s,
            identity=self.identity,
        )
