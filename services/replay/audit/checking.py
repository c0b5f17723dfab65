"""The whole log against its checkpoints, and against those that are kept outside: slowly, behind everything else."""

import asyncio
import functools
import logging
from array import array
from collections.abc import Iterator

from contracts import anchoring, chain, codec, subjects
from contracts.chain import Fault
from contracts.chain_check import ChainCheck
from contracts.errors import ClocheError, Invalid
from contracts.events.audit import AuditRotated
from contracts.findings import Findings
from contracts.scope import Scope, Trust
from infra.audit.record import Record
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.reader import Bounds, patiently
from infra.watching.threads import in_thread
from services.replay.audit import past_keys
from services.replay.audit.auditor import Auditor
from services.replay.audit.damages import Damages
from services.replay.audit.hashing import message_of
from services.replay.audit.past_checkpoints import CHECKPOINTS, kept_of
from services.replay.audit.past_keys import ROTATIONS
from services.replay.audit.signer import Signer

logger = logging.getLogger(__name__)

AFTER_S = 10.0
"""Of a service's life: what is started for one command is left alone."""
REST = 4.0
"""Times as long as each page took."""
LOOK_AGAIN_S = 0.5
TRIES = 5
"""For a log whose limits drop faster than it is read."""


class Checker:
    def __init__(self, bus: Bus, record: Record, auditor: Auditor, signer: Signer, damages: Damages) -> None:
        self._bus = bus
        self._record = record
        self._auditor = auditor
        self._signer = signer
        self._damages = damages
        self.checked = 0
        self.done = False

    async def run(self, *, after_s: float = AFTER_S) -> None:
        """Once, and returns. What it finds is told."""
        await asyncio.sleep(after_s)
        await self._auditor.begun.wait()
        while not await self._is_settled():  # noqa: ASYNC110  the file tells it, not the loop
            await asyncio.sleep(LOOK_AGAIN_S)
        try:
            for _ in range(TRIES):
                if await self.check():
                    break
        except (ClocheError, OSError) as error:
            logger.error("the log was not checked: %s", error)  # noqa: TRY400
        self.done = True

    async def _is_settled(self) -> bool:
        """What was cut off is told already, and the first checkpoint after that has taken the place of others."""
        kept, last = await in_thread(self._record.last), self._auditor.last
        return kept is not None and last is not None and kept.checkpoint.hash == last.checkpoint.hash

    async def check(self) -> bool:
        """False where retention was faster. Raises `Elsewhere`, OSError."""
        log = self._auditor.log
        # First: a key that was lost is replaced by this, and what ties the new one to the log has to be read too.
        own = await self._signer.show(log)
        bounds = await patiently(self._bus, reader.bounds)
        findings, by = Findings(), await past_keys.check()
        trust = Trust(own=own, anchors=(await in_thread(KeptOutside, self._record, log, bounds),))
        checking = ChainCheck(by, Scope(log=log, first=max(bounds.first, 1), last=bounds.last), trust, findings)
        if not await self._read(checking, findings, bounds):
            return False
        await in_thread(checking.close)
        for finding in findings.in_order():
            await self._damages.tell(finding, "check")
        self.checked = bounds.last
        return True

    async def _read(self, checking: ChainCheck, findings: Findings, bounds: Bounds) -> bool:
        loop = asyncio.get_running_loop()
        following = max(bounds.first, 1)
        while following <= bounds.last:
            begun = loop.time()
            found = await patiently(self._bus, functools.partial(_page, start=following))
            entries = [entry for entry in found.entries if entry.seq <= bounds.last]
            holds = bool(entries) and entries[0].seq == following
            if not holds and (await patiently(self._bus, reader.bounds)).first > following:
                return False
            await in_thread(_feed, checking, findings, entries)
            if not entries:
                return True
            following = entries[-1].seq + 1
            self.checked = following - 1
            await asyncio.sleep((loop.time() - begun) * REST)
        return True


async def _page(bus: Bus, *, start: int) -> page.Page:
    return await page.fetch(bus, subjects.LOG, start, max_bytes=1024 * 1024)


def _feed(checking: ChainCheck, findings: Findings, entries: list[Entry]) -> None:
    for entry in entries:
        if not checking.add(entry.seq, chain.leaf(message_of(entry))):
            continue
        try:
            if entry.subject == CHECKPOINTS:
                _checkpoint(checking, entry)
            elif entry.subject == ROTATIONS:
                checking.rotated(entry.seq, codec.decode(codec.decode_head(entry.data).data, AuditRotated))
        except Invalid as error:
            findings.add(entry.seq, Fault.UNREADABLE, error.message)


def _checkpoint(checking: ChainCheck, entry: Entry) -> None:
    kept = kept_of(entry)
    if kept is None:
        checking.refuse(entry.seq)
        raise Invalid("not an audit.checkpoint")
    checking.checkpoint(entry.seq, kept.checkpoint)


class KeptOutside:
    """What the record has of the log as it is, oldest first. Held are 8 bytes of each; it is read when it is its turn.

    Without those that were written since the log ended there: they are not missing. Raises OSError.
    """

    def __init__(self, record: Record, log: str, bounds: Bounds) -> None:
        self._record = record
        self._places = array("Q")
        for kept, place in record.places():
            if kept.checkpoint.log != log or kept.checkpoint.last_sequence < bounds.first:
                break
            if kept.sequence <= bounds.last:
                self._places.append(place)

    def __iter__(self) -> Iterator[anchoring.Kept]:
        for place in reversed(self._places):
            # What was trimmed away is of what the log has dropped since.
            if (kept := self._record.at(place)) is not None:
                yield anchoring.Kept(chain.anchor(kept.checkpoint, kept.time), functools.partial(self._leaves, place))

    def _leaves(self, place: int) -> str:
        if (kept := self._record.at(place)) is None:
            raise Invalid("it is not kept any more")
        return kept.checkpoint.leaves
