"""Keeps snapshots close to the end of every sandbox's events, so that nobody waits for the first who asks.

Nothing is subscribed to for that: whether enough was written is asked for every few seconds, and where the log has not
grown there is nothing else to do. So whoever publishes pays nothing for it.
"""

import asyncio
import logging
from typing import NamedTuple

from contracts import subjects
from contracts.errors import ClocheError, Unavailable
from contracts.state import SandboxState
from contracts.streams import LOG_STREAM
from infra.bus import page
from infra.bus.connection import Bus
from infra.log.live import LiveView
from services.replay.past.folder import SNAPSHOT_BYTES, Folder
from services.replay.past.snapshots import Snapshots
from services.replay.projection import Projection

logger = logging.getLogger(__name__)


class _Log(NamedTuple):
    last: int
    bytes: int


class Keeping:
    def __init__(
        self, bus: Bus, projection: Projection, folder: Folder, snapshots: Snapshots, *, every: int, look_s: float
    ) -> None:
        self._bus = bus
        self._projection = projection
        self._folder = folder
        self._snapshots = snapshots
        self._every = every
        self._look_s = look_s
        self._seen = _Log(0, 0)
        self._busy: set[str] = set()
        """Had a command running when they were last looked at: its output moves no read model."""

    async def run(self) -> None:
        """For ever."""
        await self._snapshots.clear_others()
        while True:
            await asyncio.sleep(self._look_s)
            try:
                await self.look()
            except Unavailable:
                await self._bus.wait_connected()
            except ClocheError as error:
                logger.error("snapshots are behind: %s", error.message)  # noqa: TRY400

    async def look(self) -> None:
        """Raises `Unavailable`."""
        state = (await self._bus.api(f"STREAM.INFO.{LOG_STREAM}"))["state"]
        log = _Log(state["last_seq"], state["bytes"])
        events, size = log.last - self._seen.last, log.bytes - self._seen.bytes
        if 0 <= events < self._every and 0 <= size < SNAPSHOT_BYTES:
            return
        each = max(size, 0) / max(events, 1)
        due = max(min(self._every, SNAPSHOT_BYTES / max(each, 1)), 1)
        for sandbox in self._grown(self._seen.last):
            if await self._pending(sandbox) >= due:
                await self._folder.advance(LiveView(self._bus), sandbox.sandbox, log.last)
        self._seen = log

    def _grown(self, since: int) -> list[SandboxState]:
        found = [
            state
            for state in self._projection.all()
            if state.applied_sequence > since or state.running or state.sandbox in self._busy
        ]
        self._busy = {state.sandbox for state in found if state.running}
        return found

    async def _pending(self, state: SandboxState) -> int:
        """How many of its events are in no snapshot."""
        newest = await self._snapshots.newest(state.sandbox)
        start = state.first_sequence if newest is None else newest + 1
        found = await page.fetch(self._bus, subjects.events_of(state.sandbox)[0], start, limit=1)
        return len(found.entries) + found.pending
