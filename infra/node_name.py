"""The name of a node is one host's: the one whose identity the log says."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from contracts import subjects
from contracts.node_names import Claim, claim_on, held_by_another
from infra.bus import reader
from infra.bus.connection import Bus
from infra.node_identity import read_identity
from infra.nodes import NodeLog
from infra.settings import Settings

LOOK_S = 0.2


async def check_name(bus: Bus, settings: Settings) -> None:
    """Raises `NodeNameTaken` where the name is another host's, `Invalid`, `Unavailable`."""
    record = (await NodeLog(bus).read()).get(settings.node)
    identity = await asyncio.to_thread(read_identity, settings.host_data)
    if record is not None and claim_on(record, identity, settings.take_over) is Claim.ANOTHERS:
        raise held_by_another(record)


class NodeName:
    """For every service that works on the sandboxes of its node: what another host of the same name has is not there.

    With a server of its own a node is the only one, and nothing is asked.
    """

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._log = NodeLog(bus)
        self._identity = ""

    async def held(self) -> None:
        """Back once the log says that the name is this host's: the spawner tells it so.

        Raises `NodeNameTaken` when it is another's, `Invalid`, `Unavailable`.
        """
        if self._settings.url is None:
            return
        await self._identify()
        async with contextlib.aclosing(self._claims()) as claims:
            async for claim in claims:
                if claim is Claim.OURS:
                    return
                if claim is Claim.ANOTHERS:
                    raise held_by_another(self._log.get(self._settings.node))

    async def keep(self) -> None:
        """After `held`, until a person has given the name to another host: raises `NodeNameTaken` then."""
        if self._settings.url is None:
            return
        async with contextlib.aclosing(self._claims()) as claims:
            async for claim in claims:
                if claim is not Claim.OURS:
                    raise held_by_another(self._log.get(self._settings.node))

    async def _identify(self) -> None:
        """The spawner makes it, in a data directory that this service may not be able to write to."""
        while True:
            self._identity = await asyncio.to_thread(read_identity, self._settings.host_data)
            if self._identity:
                return
            await asyncio.sleep(LOOK_S)

    async def _claims(self) -> AsyncGenerator[Claim, None]:
        """Now, and whenever the log says something of the node. For ever."""
        yield await self._claim()
        start = self._log.get(self._settings.node).sequence + 1
        async for _ in reader.read(self._bus, [subjects.node_events(self._settings.node)], start, follow=True):
            yield await self._claim()

    async def _claim(self) -> Claim:
        await self._log.read()
        return claim_on(self._log.get(self._settings.node), self._identity, self._settings.take_over)
