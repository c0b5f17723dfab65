"""The name of a node is one host's: whose data directory has the identity that the log says."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from contracts import subjects
from contracts.errors import Unavailable
from contracts.node_names import Claim, claim_on, held_by_another
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.durable import sync_directory, write_durably
from infra.nodes import NodeLog
from infra.settings import Settings

LOOK_S = 0.2


def identity_file(data: Path) -> Path:
    """In a directory of its own, so that a container can be given this and nothing else of the node's data."""
    return data / "identity" / "node"


def read_identity(data: Path) -> str:
    """Empty where none has been made yet. Raises `Unavailable`."""
    try:
        return identity_file(data).read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Unavailable(f"{identity_file(data)}: {error.strerror}") from error


def make_identity(data: Path) -> str:
    """Made once and the same for ever, whoever else makes it at this moment. Raises `Unavailable`."""
    if found := read_identity(data):
        return found
    file = identity_file(data)
    draft = file.with_name(f".{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(draft, f"{secrets.token_hex(16)}\n".encode())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
        draft.unlink()
        sync_directory(file.parent)
        sync_directory(data)
    except OSError as error:
        raise Unavailable(f"{file}: {error.strerror}") from error
    return read_identity(data)


async def check_name(bus: Bus, settings: Settings) -> None:
    """Raises `Invalid` where the name is another host's, `Unavailable`."""
    record = (await NodeLog(bus).read()).get(settings.node)
    identity = await asyncio.to_thread(read_identity, settings.data)
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

        Raises `Invalid` when it is another's, `Unavailable`.
        """
        if self._settings.url is None:
            return
        await self._identify()
        claim = await self._claim()
        if claim is Claim.FREE:
            async for _ in self._news():
                claim = await self._claim()
                if claim is not Claim.FREE:
                    break
        if claim is Claim.ANOTHERS:
            raise held_by_another(self._log.get(self._settings.node))

    async def keep(self) -> None:
        """Until a person has given the name to another host: raises `Invalid` then."""
        if self._settings.url is None:
            return
        async for _ in self._news():
            if await self._claim() is not Claim.OURS:
                raise held_by_another(self._log.get(self._settings.node))

    async def _identify(self) -> None:
        """The spawner makes it, in a data directory that this service may not be able to write to."""
        while True:
            self._identity = await asyncio.to_thread(read_identity, self._settings.data)
            if self._identity:
                return
            await asyncio.sleep(LOOK_S)

    async def _claim(self) -> Claim:
        await self._log.read()
        return claim_on(self._log.get(self._settings.node), self._identity, self._settings.take_over)

    def _news(self) -> AsyncIterator[Entry]:
        """What the log has of this node beyond what was read."""
        start = self._log.get(self._settings.node).sequence + 1
        return reader.read(self._bus, [subjects.node_events(self._settings.node)], start, follow=True)
