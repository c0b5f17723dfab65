"""Follows the log, and the clock where nothing happens."""

import asyncio
import logging
from typing import NamedTuple

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Invalid, Unavailable
from contracts.state import Status
from infra import clock
from infra.bus import reader
from infra.bus.connection import Bus
from services.guardian.decide import Decision
from services.guardian.engine import REMOVED, Engine, filters
from services.guardian.handlers import Teller
from services.guardian.marks import Mark, Marks
from services.guardian.moments import milliseconds
from services.guardian.past import past
from services.guardian.place import Place, obstacle
from services.guardian.watch import LATE

logger = logging.getLogger(__name__)

MARK_EVERY = 10_000
"""Events: what a restart may have to judge again."""
MARK_LEAST = 1000
"""A node that comes and goes for single commands should not fill the log with marks."""
TICK_S = 1.0
GRACE_MS = 1000
"""What was stored before a moment has come by now."""
LATE_MS = 60_000
"""A moment that is so long ago was missed: we were away, or the machine was asleep."""


class Postponed(NamedTuple):
    sandbox: str
    decision: Decision
    place: Place
    """As it was then."""


class Patrol:
    def __init__(self, bus: Bus, engine: Engine, teller: Teller, marks: Marks, judged: Mark) -> None:
        """`judged`: up to here an earlier life has told all that there was."""
        self._bus = bus
        self._engine = engine
        self._teller = teller
        self._marks = marks
        self._judged = judged.sequence
        self._looked_ms = judged.at_ms
        self._position = 0
        self._handled = 0
        self._catching_up = True
        self._postponed: dict[tuple[str, str, str], Postponed] = {}
        self._turn = asyncio.Lock()

    @property
    def position(self) -> int:
        """Up to here everything is judged."""
        return self._position

    async def catch_up(self, head: int) -> None:
        """Everything up to `head`: silently what is judged already, for what it says about what comes."""
        start = await beginning(self._bus, self._judged + 1)
        async for entry in past(self._bus, filters(self._engine.wanted), start, head):
            await self._handle(entry)
        self._catching_up = False
        await self._settle()
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
            if all([await self._look(sandbox, now) for sandbox in self._engine.due(now)]):
                self._looked_ms = now

    async def _look(self, sandbox: str, now: int) -> bool:
        """False where nobody can say yet whether it is silent."""
        async with self._turn:
            if not await self._is_current(sandbox):
                return False
            decisions = self._engine.until(sandbox, now, late_ms=now - LATE_MS)
            await self._tell(sandbox, decisions, self._engine.place(sandbox))
            return True

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
        decisions = self._engine.feed(told, silent=silent, late=self._catching_up)
        if decisions:
            gone = told.seen.tag == REMOVED
            await self._tell(told.sandbox, decisions, place if gone else self._engine.place(told.sandbox))

    async def _tell(self, sandbox: str, decisions: list[Decision], place: Place) -> None:
        """What is late waits: of all that was missed of one trouble, only the last can still be answered."""
        for decision in decisions:
            key = (sandbox, decision.finding.rule, decision.finding.key)
            if missed := self._postponed.pop(key, None):
                await self._teller.tell(*missed)
            if decision.held == LATE:
                self._postponed[key] = Postponed(sandbox, decision, place)
            else:
                await self._teller.tell(sandbox, decision, place)
        if not self._catching_up:
            await self._settle()

    async def _settle(self) -> None:
        """What is over by now is told and not acted on."""
        for sandbox, decision, before in self._postponed.values():
            place = (
                self._engine.place(sandbox) if self._engine.knows(sandbox) else replace(before, status=Status.REMOVED)
            )
            held = obstacle(place, decision.step, decision.finding.run)
            await self._teller.tell_late(sandbox, replace(decision, held=held), place)
        self._postponed.clear()

    async def _mark(self, sequence: int) -> None:
        self._handled = 0
        await self._marks.put(sequence, self._looked_ms)

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
