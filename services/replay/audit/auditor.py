"""Follows the whole log and proves it, checkpoint by checkpoint.

It asks for pages when it has time, instead of being told of everything: what is written fast is proven a little later,
and whoever writes it does not notice.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from contracts import subjects
from contracts.audits import Audit, Checking
from contracts.chain import LEAF_BYTES, Range
from contracts.errors import ClocheError, Conflict
from contracts.findings import Finding, Findings
from infra import clock
from infra.audit.record import Kept
from infra.audit.tail import Seen, moment_of
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.page import Page
from infra.bus.publisher import Expect, append
from infra.bus.reader import patiently
from infra.journal import Journal
from infra.watching.threads import in_thread
from services.replay.audit.beginning import Beginning, Files, begin
from services.replay.audit.damages import Damages
from services.replay.audit.hashing import CHECKPOINTS, Hashed, hash_all
from services.replay.audit.holes import holes, keep_oldest
from services.replay.audit.memory import Memory
from services.replay.audit.pace import Pace, Stand
from services.replay.audit.past_keys import ROTATIONS
from services.replay.audit.signer import Signer

logger = logging.getLogger(__name__)

PAGE_ENTRIES = 1000
PAGE_BYTES = 4 * 1024 * 1024
TROUBLE_S = 5.0
AGAIN_S = 0.1
TRIM_EVERY = 100
"""Checkpoints: a log with limits may be followed for years."""
LAST_WORDS_S = 1.0
"""For proving what came last, when the service ends."""
LAST_WORDS_EVENTS = 5000


class _Cut(Exception):
    """The log may have lost its end while we were looking."""


class Auditor:
    def __init__(
        self, bus: Bus, journal: Journal, settings: Audit, files: Files, signer: Signer, damages: Damages
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._settings = settings
        self._files = files
        self._signer = signer
        self._damages = damages
        self._pace = Pace(settings.checkpoint_s)
        self._range = Range("", 1, "")
        """What the next checkpoint is made of."""
        self._memory = Memory({}, 0)
        self._guard = 0
        self._worth = False
        """Whether anything but checkpoints is in it."""
        self._since: float | None = None
        self._noted: list[Seen] = []
        """What of it is noted outside."""
        self._tail_is_new = False
        self._start_head = 0
        self._epoch = 0
        self._written = 0
        """Checkpoints, by us."""
        self._trimmed = 0
        """How many of them there were when the record was last trimmed."""
        self.last: Kept | None = None
        self.log = ""
        self.begun = asyncio.Event()
        """The end of the log was compared with what is kept outside."""
        self.trouble = ""
        """Why nothing is being proven."""
        self.has_last_words = True
        self.on_checkpoint: Callable[[], None] = lambda: None

    @property
    def next(self) -> int:
        """The first sequence that was not looked at yet."""
        return self._range.next

    @property
    def unproven(self) -> int:
        """Events that were looked at and are in no checkpoint yet."""
        return len(self._range)

    @property
    def is_in_trouble(self) -> bool:
        """Nobody proves the log."""
        return bool(self.trouble)

    def waits_s(self) -> float:
        """How long something has been waiting for the next checkpoint; nought where nothing does."""
        if self._since is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._since

    async def run(self) -> None:
        """For ever, until cancelled; then what came last is proven, if that is quick."""
        while True:
            try:
                await self._live()
            except asyncio.CancelledError:
                await self._last_words()
                raise
            except (Conflict, _Cut) as error:
                logger.info("the audit begins again from the log: %s", error)
                await asyncio.sleep(AGAIN_S)
            except (ClocheError, OSError) as error:
                if str(error) != self.trouble:
                    self.trouble = str(error)
                    logger.error("the log is not being proven: %s", self.trouble)  # noqa: TRY400
                self.begun.clear()
                await asyncio.sleep(TROUBLE_S)

    async def _live(self) -> None:
        self._epoch = await self._bus.wait_connected()
        await self._begin()
        while True:
            if not await self.look():
                await self._pace.idle()

    def _trust_connection(self) -> None:
        if self._bus.epoch != self._epoch:
            # The server may have been started again with less than it had.
            raise _Cut("the connection was lost")

    async def _begin(self) -> None:
        self.begun.clear()
        self._signer.begin()
        self._pace.begin()
        await self._damages.load()
        start = await begin(self._bus, self._files, self._journal.node, self._tell_at_start)
        await self._tell_holes(start)
        if self._settings.check is Checking.OFF:
            start = start._replace(memory=Memory({}, 0))
        self._range = Range(start.log, start.first, start.previous)
        self.log, self.last = start.log, start.checkpoint
        self._memory, self._guard, self._start_head = start.memory, start.guard, start.bounds.last
        self._worth, self._since, self._noted, self._tail_is_new = False, None, [], False
        await in_thread(self._files.record.trim, start.bounds.first)

    async def _tell_at_start(self, finding: Finding) -> None:
        await self._damages.tell(finding, "start")

    async def _tell_holes(self, start: Beginning) -> None:
        directory = self._files.directory
        for finding in await patiently(self._bus, lambda bus: holes(bus, directory, start.first - 1)):
            await self._tell_at_start(finding)
        await keep_oldest(directory, start.bounds.first)

    async def look(self) -> bool:
        """One step: a page of the log, and a checkpoint where one is due. False where there was nothing to do."""
        first, head = await patiently(self._bus, reader.bounds)
        self._trust_connection()
        if head < self.next - 1:
            raise _Cut(f"the log ends at {head}, and {self.next - 1} was there")
        worked = head >= self.next
        if worked:
            await self._take_in_turn(first, head)
        if not self.begun.is_set() and self.next > self._start_head:
            await self._settle()
        if self._is_due():
            await self._checkpoint()
            await keep_oldest(self._files.directory, first)
        if self._written - self._trimmed >= TRIM_EVERY:
            self._trimmed = self._written
            await in_thread(self._files.record.trim, first)
        return worked

    async def _take_in_turn(self, first: int, head: int) -> None:
        """A page, and then others have theirs."""
        loop = asyncio.get_running_loop()
        begun, written = loop.time(), self._written
        self._pace.sees(head)
        await self._take(head)
        await self._pace.rest(loop.time() - begun, Stand(first, head, self.next), written)

    async def _take(self, head: int) -> None:
        found = await patiently(self._bus, self._fetch)
        self._trust_connection()
        if not found.entries:
            await self._pass_over(self.next, head)
            return
        hashed = await hash_all(self.log, found.entries)
        while hashed:
            room = max(1, self._settings.checkpoint_events - len(self._range))
            # Up to the next hole: a hole is a step of its own.
            run = [each for at, each in enumerate(hashed[:room]) if each.entry.seq == hashed[0].entry.seq + at]
            if run[0].entry.seq != self.next:
                await self._pass_over(self.next, run[0].entry.seq - 1)
            await self._add(run)
            del hashed[: len(run)]

    async def _fetch(self, bus: Bus) -> Page:
        return await page.fetch(bus, subjects.LOG, self.next, limit=PAGE_ENTRIES, max_bytes=PAGE_BYTES)

    async def _add(self, run: list[Hashed]) -> None:
        for each in run:
            if each.entry.subject == ROTATIONS:
                self._signer.met(each.entry.seq)
        findings = Findings()
        fresh = [each for each in run if not self._memory.knows(each.entry.seq, each.leaf)]
        for each in run:
            self._memory.compare(each.entry, each.leaf, findings)
        # Told before what is there now is noted: a crash between the two tells it again.
        await self._tell(findings)
        await in_thread(self._files.tail.append, [_seen(each) for each in (run if self._tail_is_new else fresh)])
        for each in run:
            self._range.add_leaf(each.entry.seq, each.leaf, each.mark)
        self._noted += [_seen(each) for each in run]
        self._count(worth=not all(each.is_checkpoint for each in run))
        if len(self._range) >= self._settings.checkpoint_events or self._range.is_full:
            await self._checkpoint()

    async def _pass_over(self, first: int, last: int) -> None:
        """The log has none of these: its retention dropped them, or its store has lost them."""
        kept = max(first, (await patiently(self._bus, reader.bounds)).first)
        if kept <= last:
            findings = Findings()
            self._memory.lack(kept, last, findings)
            await self._tell(findings)
        self._range.add_missing(first, last)
        self._count(worth=True)
        if self._range.is_full:
            await self._checkpoint()

    def _count(self, *, worth: bool) -> None:
        self._worth = self._worth or worth
        if self._worth and self._since is None:
            self._since = asyncio.get_running_loop().time()

    async def _settle(self) -> None:
        findings = Findings()
        self._memory.settle(self._start_head, findings)
        await self._tell(findings)
        self.begun.set()

    async def _tell(self, findings: Findings) -> None:
        for finding in findings.in_order():
            await self._damages.tell(finding, "reading" if self.begun.is_set() else "start")
        if self._memory.was_cut:
            # What is noted of the old end must not be taken for the new one.
            await in_thread(self._files.tail.restart, self._noted)
            self._memory, self._tail_is_new = Memory({}, 0), True

    def _is_due(self) -> bool:
        if self._since is None:
            return False
        return asyncio.get_running_loop().time() - self._since >= self._settings.checkpoint_s

    async def _checkpoint(self) -> None:
        """Raises `Conflict` when somebody else wrote the next one."""
        checkpoint = await self._signer.sign(self.log, self._range.checkpoint(""))
        now = clock.now()
        # The same for all who have seen the same: then one of us has written it for both.
        id_ = f"checkpoint.{checkpoint.last_sequence}.{checkpoint.hash[:32]}.{checkpoint.key[:32]}"
        written = self._journal.write(subjects.NO_SANDBOX, checkpoint, id=id_, time=now)
        guard = Expect(CHECKPOINTS, self._guard)
        ack = await append(self._bus, written.subject, written.payload, written.id, expect=guard)
        # At once: whatever interrupts us from here on, this range is proven.
        self._guard = ack.seq
        self._written += 1
        self._range = Range(self.log, checkpoint.last_sequence + 1, checkpoint.hash)
        self._worth, self._since, self._noted, self._tail_is_new = False, None, [], True
        self.trouble = ""
        self.last = Kept(sequence=ack.seq, time=now, checkpoint=checkpoint)
        await in_thread(self._files.record.append, self.last)
        await in_thread(self._files.tail.restart, [])
        self.on_checkpoint()

    async def _last_words(self) -> None:
        if not self.has_last_words or not self.begun.is_set() or not self._bus.is_connected:
            return
        with contextlib.suppress(TimeoutError, ClocheError, OSError, _Cut):
            async with asyncio.timeout(LAST_WORDS_S):
                if (await reader.bounds(self._bus)).last - self.next > LAST_WORDS_EVENTS:
                    return
                while await self.look():
                    pass
                if self._worth:
                    await self._checkpoint()


def _seen(hashed: Hashed) -> Seen:
    return Seen(hashed.entry.seq, moment_of(hashed.entry.stored_at), hashed.leaf[:LEAF_BYTES])
