"""What was known of the log's end before this life, and what of it is no longer so."""

import datetime
from typing import NamedTuple

from contracts.chain import LEAF_BYTES, Fault
from contracts.findings import Findings
from infra.audit.tail import moment_of
from infra.bus.page import Entry

GONE = "it was stored and seen, and the log has lost it"
CUT = "the log ends before it, though it was stored and seen"
REUSED = "another event has its number: the log was cut there, and then went on"
CHANGED = "the event is not the one that was stored there"
NEVER_SEEN = "the store has lost it before it was proven"


class Known(NamedTuple):
    """Of one sequence."""

    leaf: bytes
    moment: int | None = None
    """That it was stored at; see `infra.audit.tail`."""
    at: datetime.datetime | None = None
    """Or a time by which it was there."""

    def is_of(self, entry: Entry) -> bool:
        """Whether that can be the same event, changed, and not another one that was stored later."""
        if self.moment is not None:
            return self.moment == moment_of(entry.stored_at)
        return self.at is None or entry.time <= self.at


class Memory:
    """Fed with the log in order, from just behind the checkpoint that it begins at."""

    def __init__(self, known: dict[int, Known], last: int) -> None:
        """The later ones may be absent from `known`; `last` is the last sequence that was ever seen."""
        self._known = known
        self._last = last
        self.was_cut = False
        """What was known of the log's end is about another end."""

    def knows(self, sequence: int, leaf: bytes) -> bool:
        known = self._known.get(sequence)
        return known is not None and known.moment is not None and known.leaf == leaf[:LEAF_BYTES]

    def compare(self, entry: Entry, leaf: bytes, findings: Findings) -> None:
        known = self._known.pop(entry.seq, None)
        if known is None or known.leaf == leaf[:LEAF_BYTES]:
            return
        if known.is_of(entry):
            findings.add(entry.seq, Fault.CHANGED, CHANGED)
        else:
            findings.add(entry.seq, Fault.TRUNCATED, REUSED, last=self._last)
            self._forget()

    def lack(self, first: int, last: int, findings: Findings) -> None:
        """The log has nothing there, and its retention is not why."""
        known = sorted(sequence for sequence in self._known if first <= sequence <= last)
        for sequence in known:
            del self._known[sequence]
            if first < sequence:
                findings.add(first, Fault.LOST, NEVER_SEEN, last=sequence - 1)
            findings.add(sequence, Fault.MISSING, GONE)
            first = sequence + 1
        if first <= last:
            findings.add(first, Fault.LOST, NEVER_SEEN, last=last)

    def settle(self, head: int, findings: Findings) -> None:
        """The log ended at `head` when all of it had been compared."""
        if self._last > head:
            findings.add(head + 1, Fault.TRUNCATED, CUT, last=self._last)
            self._forget()

    def _forget(self) -> None:
        self._known = {}
        self._last = 0
        self.was_cut = True
