"""Plays one replay: puts each event where it is due, and obeys."""

import asyncio
import datetime
import logging

from msgspec.structs import replace

from contracts import codec, subjects
from contracts.errors import Conflict, Unavailable
from contracts.pacing import Pace, Timeline
from contracts.replays import PASS_HEADER, SEQUENCE_HEADER, Playing
from infra import clock
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.patience import patiently
from infra.log.ahead import Ahead, time_of
from infra.log.lacking import lacking
from infra.log.view import LogView
from services.replay.playing.record import Record, Verb, advanced, begun_again, merged, obey
from services.replay.playing.shelf import Held, Shelf
from services.replay.playing.turns import Turns

logger = logging.getLogger(__name__)

SLACK_S = 0.5
"""What is later than this came late because of us, and is not made up for."""
AT_ONCE_S = 0.0005
"""A shorter wait costs more than it is worth."""
BETWEEN_PASSES_S = 0.05
"""At the least: a short history that is looped at a high speed must not keep the machine busy."""
IN_A_ROW = 16
"""Events before the others have their turn."""
LACKS_TOLD = 100
"""Every second, and by very many replays."""


class Player:
    def __init__(self, bus: Bus, view: LogView, shelf: Shelf, held: Held, turns: Turns) -> None:
        self._bus = bus
        self._view = view
        self._turns = turns
        self._shelf = shelf
        self.record, self._revision = held
        self._ahead = Ahead(
            bus, view, subjects.typed(self.record.sandbox, self.record.types), self.record.last_sequence
        )
        self._news = asyncio.Event()
        self._saving = asyncio.Lock()
        self._lost = False
        self._saved = self.record
        """Its events have reached the server: those after it may have been lost with a connection."""
        self._epoch = bus.epoch
        self._in_a_row = 0
        self._pending: tuple[int, datetime.datetime, float] | None = None
        self._start()

    def _start(self) -> None:
        """From the position on. The silence before the next event counts where the last one is known."""
        self._timeline = Timeline(self.record.max_idle_ms / 1000)
        if self.record.time is not None:
            self._timeline.put(self.record.time)
        self._pace = Pace(now=self._now(), speed=self.record.speed, paused=self.record.paused)
        self._pending = None

    @property
    def is_dirty(self) -> bool:
        return self.record != self._saved

    def noticed(self, held: Held) -> None:
        """Somebody has changed the record."""
        if held.revision <= self._revision:
            return
        if held.record.owner != self.record.owner:
            self.lose()
            return
        self._revision = held.revision
        self.record = merged(self.record, held.record)
        if self.record.inbox or self.record.asked != self.record.answered:
            self._news.set()

    def lose(self) -> None:
        """It is not to be played here any more."""
        self._lost = True
        self._news.set()

    async def run(self) -> None:
        """Until it is stopped, or somebody else plays it. Raises `LogGap`, `Denied`, `Unavailable` at the very end."""
        await self.look_for_gaps()
        await self._obey()
        await self.tell()
        while not self._lost and not self.record.stopped:
            if self._news.is_set() or self.record.inbox:
                self._news.clear()
                await self._obey()
            elif self._bus.epoch != self._epoch:
                self._go_back()
            elif self.record.at_end:
                await self._finish_pass()
            else:
                await self._advance()

    async def tell(self, record: Record | None = None) -> None:
        """How it stands, or stood; may be lost with the connection."""
        subject = subjects.replay_status(self.record.replay)
        try:
            await self._bus.publish(subject, codec.encode((record or self.record).status))
        except Unavailable as error:
            logger.debug("%s: %s", subject, error.message)

    async def save(self) -> None:
        """A change by somebody else is taken in, not written over."""
        async with self._saving:
            while not self._lost:
                record, epoch = self.record, self._bus.epoch
                try:
                    held = await self._shelf.save(record, self._revision)
                except Conflict:
                    await self._reconcile()
                    continue
                self._revision = max(held.revision, self._revision)
                if epoch == self._bus.epoch == self._epoch:
                    self._saved = record
                return

    async def sign_of_life(self) -> None:
        """Waits for no answer of the log: who gives none for long loses what he plays."""
        if self.record.playing == Playing.PLAYING:
            await self.tell()

    async def look_for_gaps(self) -> bool:
        """What is lost is known only after a while, and may have been played over by then.

        Returns whether there is something else to tell than before. Takes as long as the log does to answer.
        """
        asked = self.record
        start, end = asked.start or asked.first_sequence, asked.end or asked.last_sequence
        try:
            found = (await lacking(self._view, start, end))[:LACKS_TOLD]
        except Unavailable:
            return False
        is_news = not self._lost and found != self.record.lacking
        if is_news:
            self.record = replace(self.record, lacking=found)
        return is_news

    async def _reconcile(self) -> None:
        replay = self.record.replay
        stored = await patiently(self._bus, lambda _: self._shelf.find(replay))
        if stored is not None:
            self._revision = min(self._revision, stored.revision - 1)
            self.noticed(stored)
            return
        revision = await patiently(self._bus, lambda _: self._shelf.revision(replay))
        if revision is None:
            self.lose()
        else:
            # The bucket was lost, or cannot be read: what is playing is the only copy.
            self._revision = revision

    async def _obey(self) -> None:
        if not self.record.inbox and self.record.asked == self.record.answered:
            return
        obeyed: list[Record] = []
        for directive in self.record.inbox:
            before, self.record = self.record, obey(self.record, directive)
            self._follow(directive.verb, before)
            obeyed.append(self.record)
        self.record = replace(self.record, inbox=(), answered=self.record.asked)
        if self.record.stopped:
            self.record = replace(self.record, over_at=clock.now())
        await self.save()
        for record in obeyed:
            await self.tell(record)

    def _follow(self, verb: Verb, before: Record) -> None:
        now = self._now()
        self._pace.hasten(self.record.speed, now)
        match verb:
            case Verb.PAUSE | Verb.STEP | Verb.STOP:
                self._pace.pause(now)
            case Verb.RESUME:
                self._pace.resume(now)
            case Verb.SEEK if self.record.passes != before.passes:
                self._ahead.forget()
                self._start()

    def _go_back(self) -> None:
        """After a lost connection. Followers drop what they have had."""
        self._epoch = self._bus.epoch
        if self._saved.passes == self.record.passes and self._saved.position < self.record.position:
            self.record = replace(self.record, position=self._saved.position, time=self._saved.time, over_at=None)
            self._ahead.forget()
            self._start()

    async def _advance(self) -> None:
        if self.record.paused and not self.record.steps:
            await self._wait(None)
            return
        entry = await self._ahead.after(self.record.position)
        if entry is None:
            # What was the last has been dropped by the log's limits.
            self.record = replace(self.record, position=self.record.last_sequence)
            return
        time, place = self._due(entry)
        wait_s = 0.0 if self.record.steps else self._pace.wait_s(place, self._now()) or 0.0
        if wait_s > AT_ONCE_S:
            await self._wait(wait_s)
        else:
            await self._play(entry, time, place)

    def _due(self, entry: Entry) -> tuple[datetime.datetime, float]:
        if self._pending is None or self._pending[0] != entry.seq:
            time = time_of(entry)
            self._pending = (entry.seq, time, self._timeline.put(time))
        return self._pending[1:]

    async def _play(self, entry: Entry, time: datetime.datetime, place: float) -> None:
        headers = {SEQUENCE_HEADER: str(entry.seq), PASS_HEADER: str(self.record.passes)}
        subject = subjects.replayed(self.record.replay, entry.subject)
        try:
            await self._bus.publish(subject, entry.data, headers=headers)
        except Unavailable:
            await self._bus.wait_connected()
            return
        stepped = self.record.steps > 0
        self.record = advanced(self.record, entry.seq, time)
        if stepped:
            self._pace.step_to(place, self._now())
            if not self.record.steps:
                await self.save()
                await self.tell()
        else:
            self._pace.catch_up(place, self._now(), SLACK_S)
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW:
            self._in_a_row = 0
            await self._turns.wait()

    async def _finish_pass(self) -> None:
        if self.is_dirty:
            await self.save()
        if self._bus.epoch != self._epoch:
            return
        if self.record.loop:
            self.record = begun_again(self.record)
            self._ahead.forget()
            self._start()
            await self.save()
            await self.tell()
            await self._wait(BETWEEN_PASSES_S)
            return
        if self.record.over_at is None:
            self.record = replace(self.record, over_at=clock.now(), steps=0)
            self._ahead.forget()
            await self.save()
            await self.tell()
        else:
            await self._wait(None)

    async def _wait(self, seconds: float | None) -> None:
        """For so long, or until there is something to obey."""
        self._in_a_row = 0
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
