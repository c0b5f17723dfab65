"""What projects and principals hold and have spent, followed live from the log and kept in memory."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.ledger import Ledger
from contracts.quotas import Quotas
from infra.bus import gaps, reader
from infra.bus.connection import Bus
from infra.bus.gaps import Gap
from infra.states import forgotten_states

logger = logging.getLogger(__name__)

COUNTED: Sequence[str] = (subjects.lifecycle("*"), *subjects.events_of(family="agent", kind="metrics", scope="*"))


class Usage:
    """Run `follow` in a task. What is asked before it has caught up is answered by an empty log."""

    def __init__(self, bus: Bus, quotas: Quotas) -> None:
        self._bus = bus
        self._quotas = quotas
        self._news = asyncio.Event()
        self._gaps: set[Gap] = set()
        self._is_doubtful = False
        self.ledger = Ledger(quotas)
        self.caught_up = asyncio.Event()
        """Set once everything that was in the log at the start has been counted."""

    async def reached(self, sequence: int) -> Ledger:
        """Once everything up to an event of a sandbox's life, or of what was spent, is counted."""
        while self.ledger.sequence < sequence:
            await self.changed()
        return self.ledger

    async def newest(self) -> Ledger:
        """Once everything is counted that is in the log now. Waits out lost connections."""
        return await self.reached(await self._head())

    async def changed(self) -> None:
        """Until something more is counted."""
        await self._news.wait()

    async def follow(self) -> None:
        """For ever, until cancelled."""
        while True:
            self._is_doubtful = False
            await self._count()

    async def _count(self) -> None:
        """Until the log turns out to have lost something that was counted: then all of it is counted again."""
        counting = Ledger(self._quotas)
        for state in await forgotten_states(self._bus):
            counting.begin(state)
        head = await self._head()
        if head == 0:
            self._show(counting)
        async for entry in reader.read(self._bus, COUNTED, 1, follow=True, on_gap=self.lack):
            _apply(counting, entry)
            if entry.seq >= head:
                self._show(counting)
            if self._is_doubtful:
                return

    def _show(self, counted: Ledger) -> None:
        self.ledger = counted
        self.caught_up.set()
        self._news.set()
        self._news = asyncio.Event()

    def lack(self, gap: Gap) -> None:
        """What is lost may have been counted, and its sequences may be given again to other events."""
        gaps.warn(gap)
        self._is_doubtful |= gap not in self._gaps
        self._gaps.add(gap)

    async def _head(self) -> int:
        """The last event that counts."""
        newest = [await reader.patiently(self._bus, partial(reader.last, filter_=each)) for each in COUNTED]
        return max(entry.seq if entry else 0 for entry in newest)


def _apply(ledger: Ledger, entry: reader.Entry) -> None:
    try:
        ledger.apply(entry.seq, codec.decode_head(entry.data))
    except Invalid as error:
        ledger.sequence = entry.seq
        logger.error("event %d cannot be counted: %s", entry.seq, error.message)  # noqa: TRY400
