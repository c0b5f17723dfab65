"""Follows the log, and the clock where nothing happens."""

import asyncio
import logging

from contracts import codec, subjects
from contracts.errors import Invalid, Unavailable
from contracts.guardian import Step
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from services.guardian.decide import Decision
from services.guardian.engine import REMOVED, Engine, filters
from services.guardian.handlers import Teller
from services.guardian.marks import Marks
from services.guardian.moments import milliseconds
from services.guardian.place import Place

logger = logging.getLogger(__name__)

MARK_EVERY = 10_000
"""Events: what a restart may have to judge again."""
MARK_LEAST = 1000
"""A node that comes and goes for single commands should not fill the log with marks."""
TICK_S = 1.0
GRACE_MS = 1000
"""What was stored before a moment has come by now."""


class Patrol:
    def __init__(self, bus: Bus, engine: Engine, teller: Teller, marks: Marks, judged: int) -> None:
        """`judged`: up to here an earlier life has told all that there was."""
        self._bus = bus
        self._engine = engine
        self._teller = teller
        self._marks = marks
        self._judged = judged
        self._position = 0
        self._handled = 0
        self._catching_up = True
        self._postponed: list[tuple[str, Decision]] = []
        self._turn = asyncio.Lock()

    async def catch_up(self, head: int) -> None:
        """Everything up to `head`: silently what is judged already, for what it says about what comes."""
        start = await beginning(self._bus, self._judged + 1)
        async for entry in reader.read(self._bus, filters(self._engine.wanted), start, follow=False, end=head):
            await self._handle(entry)
        # What is over by now is told and not acted on.
        self._catching_up = False
        for sandbox, decision in self._postponed:
            await self._teller.tell(sandbox, decision, self._engine.place(sandbox))
        self._postponed.clear()
        self._position = head
        if self._handled >= MARK_LEAST:
            await self._mark(head)

    async def follow(self) -> None:
        """For ever, until cancelled."""
        wanted = filters(self._engine.wanted)
        async for entry in reader.read(self._bus, wanted, self._position + 1, follow=True):
            async with self._turn:
                await self._handle(entry)
                if self._handled >= MARK_EVERY:
                    await self._mark(entry.seq)

    async def keep_time(self) -> None:
        """For ever: finds what is only to be found by nothing happening."""
        while True:
            await asyncio.sleep(TICK_S)
            now = milliseconds(clock.now()) - GRACE_MS
            for sandbox in self._engine.due(now):
                async with self._turn:
                    if await self._is_current(sandbox):
                        await self._tell(sandbox, self._engine.until(sandbox, now), self._engine.place(sandbox))

    async def _handle(self, entry: reader.Entry) -> None:
        self._position = entry.seq
        try:
            told = self._engine.read(entry.seq, milliseconds(entry.time), entry.data)
        except Invalid as error:
            logger.error("event %d cannot be read: %s", entry.seq, error.message)  # noqa: TRY400
            return
        if told is None:
            return
        silent = entry.seq <= self._judged
        self._handled += not silent
        place = self._engine.place(told.sandbox)
        decisions = self._engine.feed(told, silent=silent)
        if decisions:
            gone = told.seen.tag == REMOVED
            await self._tell(told.sandbox, decisions, place if gone else self._engine.place(told.sandbox))

    async def _tell(self, sandbox: str, decisions: list[Decision], place: Place) -> None:
        for decision in decisions:
            if self._catching_up and decision.step is not Step.OBSERVE:
                self._postponed.append((sandbox, decision))
            else:
                await self._teller.tell(sandbox, decision, place)

    async def _mark(self, sequence: int) -> None:
        self._handled = 0
        await self._marks.put(sequence)

    async def _is_current(self, sandbox: str) -> bool:
        """Whether the log has nothing of this sandbox that has not come here yet: silence must not be our deafness."""
        try:
            for each in filters(self._engine.wanted, sandbox):
                if await reader.first(self._bus, each, start=self._position + 1) is not None:
                    return False
        except Unavailable:
            return False
        return True


async def beginning(bus: Bus, since: int) -> int:
    """Where the life of the oldest sandbox begins that was there at `since` or came later."""
    first: dict[str, int] = {}
    async for entry in reader.read(bus, [subjects.lifecycle("*")], 1, follow=False):
        sandbox = subjects.sandbox_of(entry.subject)
        first.setdefault(sandbox, entry.seq)
        if entry.seq < since and subjects.parse_event(entry.subject).kind == "removed":
            del first[sandbox]
    return min([since, *first.values()])


async def told_since(bus: Bus, sequence: int) -> set[str]:
    """Ids, without the name of the service, of what was told after a sequence."""
    told: set[str] = set()
    async for entry in reader.read(bus, subjects.events_of(family="guardian"), sequence + 1, follow=False):
        try:
            told.add(codec.decode_head(entry.data).id.partition(".")[2])
        except Invalid:
            continue
    return told
