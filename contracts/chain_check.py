"""A log against its own checkpoints, and against those that were kept elsewhere."""

from collections import deque
from collections.abc import Sequence

from contracts import anchoring
from contracts.anchoring import Anchors, Kept
from contracts.audits import Anchor
from contracts.chain import MOST_GAPS, Fault, Listed, genesis, listed, mark, statement
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint, AuditRotated
from contracts.exports import MOST_SEQUENCE
from contracts.findings import Findings
from contracts.keyring import Check, Keyring
from contracts.scope import Scope, Trust
from contracts.unproven import Unproven


class ChainCheck:
    """Told of every message in order of sequence, and of every checkpoint and rotation among them.

    Holds the leaves since the last checkpoint, and nothing else that grows.
    """

    def __init__(self, check: Check, scope: Scope, trust: Trust, findings: Findings) -> None:
        self._check = check
        self._scope = scope
        self._findings = findings
        self.log = scope.log
        self.keyring = Keyring(check, trust.keys, trust.own, findings)
        self._anchors = Anchors(trust.anchors)
        self._unproven = Unproven()
        self._next = scope.first
        """No checkpoint has covered this one yet."""
        self._hash: str | None = None
        """Of the last checkpoint."""
        self._own: deque[int] = deque()
        self._first_seen = self._last_seen = 0
        self._has_met_future = False
        self._refused = 0
        """The last checkpoint that counts for nothing."""
        self._is_signed_before = False
        """An anchor is of what lies before the scope: its checkpoint may have been dropped with it."""
        self._lost: list[tuple[int, int]] = []
        self.last = 0
        self._most = scope.last or MOST_SEQUENCE
        self._inside = 0
        """The last one of the scope: the checkpoint that proves it comes after it."""
        self._gone_to = 0
        """The end of what is known to have been there after the last message."""
        self.checkpoints = 0
        self.agreeing = 0
        """Anchors that say what the log says."""
        self.proven_from = 0
        self.proven_to = 0
        self.later = 0
        """The end of the log by anchors that are newer than the export."""

    def add(self, sequence: int, leaf: bytes) -> bool:
        """False for a message that stands where it cannot."""
        if sequence <= self.last:
            self._findings.add(sequence, Fault.UNEXPECTED, f"stands after sequence {self.last}")
            return False
        if sequence < self._scope.first:
            detail = f"stands before sequence {self._scope.first}, where the record says that it begins"
            self._findings.add(sequence, Fault.UNEXPECTED, detail)
            return False
        self.last = sequence
        if sequence <= self._most:
            self._inside = sequence
        self._unproven.add(sequence, leaf)
        return True

    @property
    def unproven(self) -> int:
        """How many events came after the last checkpoint, without the log's own: the last one is never proven."""
        own = sum(self._next <= sequence <= self._inside for sequence in self._own)
        return self._unproven.count(self._next, self._inside) - own

    def own(self, sequence: int) -> None:
        """One of the log's own events: a checkpoint, a rotation, a damage. Those may follow what they prove."""
        self._own.append(sequence)

    def seen(self, sequence: int) -> None:
        """Any other event: those are asked about, and end where the record says that it ends."""
        if sequence > self._most:
            detail = f"stands after sequence {self._most}, where the record says that it ends"
            self._findings.add(sequence, Fault.UNEXPECTED, detail)
        self._first_seen = self._first_seen or sequence
        self._last_seen = sequence

    def concerns(self, first: int, last: int) -> bool:
        """Whether any of a range is asked about."""
        if self._scope.sandbox is None:
            return last >= self._scope.first
        return self._first_seen > 0 and first <= self._last_seen and last >= self._first_seen

    def rotated(self, sequence: int, rotated: AuditRotated) -> None:
        if self._is_ours(sequence, rotated.log):
            self.keyring.rotated(sequence, rotated)

    def _is_ours(self, sequence: int, log: str) -> bool:
        if self.log and log != self.log:
            self._findings.add(sequence, Fault.BROKEN_CHAIN, "it belongs to another log")
            return False
        return True

    def refuse(self, sequence: int) -> None:
        """What stands there should be a checkpoint."""
        self._refused = sequence

    def checkpoint(self, sequence: int, said: AuditCheckpoint) -> None:
        if not self._is_possible(sequence, said):
            self.refuse(sequence)
            return
        self.keyring.signed(sequence, said.key, up_to=said.last_sequence)
        self.checkpoints += 1
        if self._continues(sequence, said):
            self._range(sequence, said)

    def _is_possible(self, sequence: int, said: AuditCheckpoint) -> bool:
        if not self._check(said.key, statement(said), said.signature):
            self._findings.add(sequence, Fault.BAD_SIGNATURE, "the checkpoint is not what its key has signed")
            return False
        if not self._is_ours(sequence, said.log):
            return False
        self.log = said.log
        if said.last_sequence >= sequence:
            self._findings.add(sequence, Fault.WRONG_HASH, f"a checkpoint of what is after it: {said.last_sequence}")
            self._from_the_future(sequence, said)
            return False
        return True

    def _from_the_future(self, sequence: int, said: AuditCheckpoint) -> None:
        """Events may have moved up, or it is forged. One of them tells where; it proves nothing, so all would cost."""
        if not self._has_met_future:
            self._has_met_future = True
            self._look_closely(sequence, said, up_to=sequence - 1)

    def _continues(self, sequence: int, said: AuditCheckpoint) -> bool:
        """Whether it covers anything new."""
        first, expected = said.first_sequence, self._next
        if self._hash is None:
            self._begins(sequence, said)
        elif said.last_sequence < expected:
            detail = f"covers {first} to {said.last_sequence} again: the chain goes on at {expected}"
            self._findings.add(sequence, Fault.BROKEN_CHAIN, detail)
            return False
        elif (first, said.previous) != (expected, self._hash):
            self._skips(sequence, said)
        return True

    def _begins(self, sequence: int, said: AuditCheckpoint) -> None:
        first, start = said.first_sequence, self._scope.first
        list(self._anchors.up_to(min(first, start) - 1, self.log))
        self.proven_from = max(first, start)
        if first <= start:
            return
        if said.previous != genesis(self.log) and not self._is_in(said.previous, genesis(self.log), start, first - 1):
            detail = f"the checkpoint before it, which proved everything up to {first - 1}, is not there"
            self._findings.add(sequence, Fault.BROKEN_CHAIN, detail)
        self._pass_over(sequence, start, first - 1)

    def _skips(self, sequence: int, said: AuditCheckpoint) -> None:
        """A checkpoint in between is gone or bad. What it proved is in the hash that this one continues."""
        first, expected = said.first_sequence, self._next
        if self._hash is not None and self._is_in(said.previous, self._hash, expected, first - 1):
            self._pass_over(sequence, expected, first - 1)
            return
        where = f"begins at {first}, and the one before it ends at {expected - 1}"
        detail = where if first != expected else f"it does not continue the one that ends at {expected - 1}"
        self._findings.add(sequence, Fault.BROKEN_CHAIN, detail)
        self._pass_over(sequence, expected, first - 1)

    def _is_in(self, hash_: str, before: str, first: int, last: int) -> bool:
        """Whether a hash is that of all events of a range, though no checkpoint tells of them."""
        if self._scope.sandbox is not None or first > last:
            return False
        holes = list(self._unproven.holes(first, last))
        return len(holes) <= MOST_GAPS and self._unproven.hash(before, first, last, holes) == hash_

    def _pass_over(self, sequence: int, first: int, last: int) -> None:
        """No checkpoint of the log tells of these; one that was kept elsewhere may."""
        for kept in self._anchors.up_to(last, self.log):
            if self._is_sound(kept, sequence):
                self._differs_from_anchor(kept, sequence)
        if self._scope.sandbox is None:
            for lost, found in self._unproven.holes(first, last):
                self._lose(lost, found)
        self._unproven.drop(last)

    def _lose(self, first: int, last: int) -> None:
        self._findings.add(first, Fault.LOST, "the log has no event of this sequence", last=last)

    def _range(self, sequence: int, said: AuditCheckpoint) -> None:
        is_whole = self._is_whole(said)
        if is_whole and self._hash_of(said) == said.hash:
            self._lost_before(said.missing)
        else:
            differs = self._look_closely(sequence, said)
            if is_whole and not differs:
                detail = "the hash of the checkpoint is not that of what it lists"
                self._findings.add(sequence, Fault.WRONG_HASH, detail)
        self._anchored(sequence, said)
        self._next, self._hash = said.last_sequence + 1, said.hash
        if said.last_sequence >= self._scope.first:
            self.proven_to = said.last_sequence
        self._unproven.drop(said.last_sequence)
        while self._own and self._own[0] <= said.last_sequence:
            self._own.popleft()

    def _is_whole(self, said: AuditCheckpoint) -> bool:
        """Whether everything that it covers should be there."""
        first, last = self._scope.first, self._scope.last or said.last_sequence
        return self._scope.sandbox is None and first <= said.first_sequence and said.last_sequence <= last

    def _look_closely(self, sequence: int, said: AuditCheckpoint, *, up_to: int | None = None) -> bool:
        """Names what is not as the checkpoint lists it; False if all is."""
        try:
            listing = listed(said)
        except Invalid as error:
            self._findings.add(sequence, Fault.WRONG_HASH, f"a checkpoint that cannot be: {error.message}")
            return True
        return self._differs(listing, said, f"the checkpoint at sequence {sequence}", up_to=up_to)

    def _hash_of(self, said: AuditCheckpoint | Anchor) -> str | None:
        return self._unproven.hash(said.previous, said.first_sequence, said.last_sequence, said.missing)

    def _differs(
        self, listing: dict[int, Listed], said: AuditCheckpoint | Anchor, by: str, *, up_to: int | None = None
    ) -> bool:
        """Names what is not as listed, of what is not proven yet. Takes what is there out of `listing`."""
        scope = self._scope
        first = max(said.first_sequence, self._next, scope.first)
        last = min(said.last_sequence, up_to or scope.last or said.last_sequence)
        wanted = None if scope.sandbox is None else mark(self.log, scope.sandbox)
        differs = False
        for sequence, found in self._unproven.between(first, last):
            if (known := listing.pop(sequence, None)) is None:
                self._findings.add(sequence, Fault.UNEXPECTED, f"{by} knows of no such event")
            elif not found.startswith(known.leaf):
                self._findings.add(sequence, Fault.CHANGED, f"not the event that {by} was made of")
            else:
                continue
            differs = True
        for sequence, known in listing.items():
            if first <= sequence <= last and wanted in (None, known.mark):
                self._gone(sequence, by)
                differs = True
        self._lost_before(said.missing)
        return differs

    def _gone(self, sequence: int, by: str) -> None:
        if sequence > self._end:
            self._gone_to = max(self._gone_to, sequence)
        else:
            self._findings.add(sequence, Fault.MISSING, f"{by} knows an event that is not there")

    @property
    def _end(self) -> int:
        """Where the log ends: of one sandbox, not every sequence comes by."""
        if self._scope.sandbox is None:
            return max(self._inside, self._scope.first - 1)
        return self._scope.last or self.last

    def _lost_before(self, missing: Sequence[tuple[int, int]]) -> None:
        for lost, found in missing:
            if found < self._scope.first:
                continue
            if self._scope.sandbox is None:
                self._lose(max(lost, self._scope.first), found)
            elif 0 < self._first_seen <= found:
                self._may_lose(lost, found)

    def _may_lose(self, first: int, last: int) -> None:
        if len(self._lost) == MOST_GAPS:
            # None is passed over in silence: of the last ones it is only known between which they are.
            first, _ = self._lost.pop()
        self._lost.append((first, last))

    def _close_lost(self) -> None:
        """What was lost between the events of one sandbox may have been of it. What lies elsewhere was not."""
        for lost, found in self._lost:
            if self.concerns(lost, found):
                detail = "the log has lost it, and it may have been of this sandbox"
                self._findings.add(lost, Fault.LOST, detail, last=found)

    def _anchored(self, sequence: int, said: AuditCheckpoint) -> None:
        for kept in self._anchors.up_to(said.last_sequence, self.log):
            if anchoring.of(said, kept.anchor):
                self.agreeing += 1
            elif self._is_sound(kept, sequence):
                self._disagrees(sequence, kept)

    def _is_sound(self, kept: Kept, sequence: int) -> bool:
        said = kept.anchor
        if self._check(said.key, statement(said), said.signature):
            return True
        detail = f"the anchor of {said.first_sequence} to {said.last_sequence} is not what its key has signed"
        self._findings.add(sequence, Fault.WRONG_ANCHOR, detail)
        return False

    def _disagrees(self, sequence: int, kept: Kept) -> None:
        said, listing = kept.anchor, anchoring.listed_by(kept)
        if listing is None or not self._differs(listing, said, "an anchor"):
            detail = f"an anchor of {said.first_sequence} to {said.last_sequence} says otherwise than the checkpoint"
            self._findings.add(sequence, Fault.WRONG_ANCHOR, detail)

    def close(self) -> None:
        """When every message was told."""
        self._check_names()
        for kept in self._anchors.rest(self.log):
            self._beyond(kept)
        if self._scope.sandbox is None:
            self._close_tail()
        else:
            self._close_lost()
        if self._gone_to > self._end:
            detail = "the log ends here, and went on once"
            self._findings.add(self._end + 1, Fault.TRUNCATED, detail, last=self._gone_to)
        if self.keyring.is_given and self.last and not self.checkpoints and not self._is_signed_before:
            self._findings.add(
                self._scope.first, Fault.UNKNOWN_KEY, "nobody has signed anything: no checkpoint is there"
            )
        self.keyring.close()

    def _check_names(self) -> None:
        self.log = self.log or self._anchors.only_log()
        if self._anchors.has_any() and not self._anchors.has_of(self.log):
            self._findings.add(self._scope.first, Fault.WRONG_ANCHOR, "none of the anchors is of this log")

    def _close_tail(self) -> None:
        first = max(self._next, self._scope.first)
        for lost, found in self._unproven.holes(first, max(self._inside, first - 1)):
            self._lose(lost, found)
        self._gone_to = max(self._gone_to, self._scope.last)

    def _beyond(self, kept: Kept) -> None:
        """An anchor of what no checkpoint in the log covers."""
        said, exported_at = kept.anchor, self._scope.exported_at
        if not self._is_sound(kept, max(min(said.last_sequence, self._end), self._scope.first)):
            return
        if said.last_sequence < self._scope.first:
            self._is_signed_before = True
            return
        is_of_one = self._scope.sandbox is not None and exported_at is not None
        if (exported_at is not None and said.time > exported_at) or (is_of_one and said.first_sequence > self._end):
            self.later = max(self.later, said.last_sequence)
            return
        if is_of_one:
            self._left_out(kept)
        else:
            self._cut_off(kept)
        self._next = max(self._next, min(said.last_sequence, self._end) + 1)

    def _left_out(self, kept: Kept) -> None:
        """The export of a sandbox has every checkpoint that touches it."""
        said, listing = kept.anchor, anchoring.listed_by(kept)
        if listing is None or not self._differs(listing, said, "an anchor"):
            detail = f"the checkpoint of {said.first_sequence} to {said.last_sequence} was anchored, and is not there"
            self._findings.add(max(said.first_sequence, self._next), Fault.BROKEN_CHAIN, detail)

    def _cut_off(self, kept: Kept) -> None:
        said = kept.anchor
        differs = self._differs_from_anchor(kept, max(said.first_sequence, self._next))
        if not differs and not self._may_be_within(said.last_sequence + 1):
            # The checkpoint itself was stored after all that it covers, and is gone.
            self._gone_to = max(self._gone_to, self._end + 1)
        self._gone_to = max(self._gone_to, said.last_sequence)

    def _may_be_within(self, first: int) -> bool:
        """Whether a checkpoint that is not there may have been at or after a sequence: there is a fault already."""
        is_whole = self._scope.sandbox is None
        return self._refused >= first or (is_whole and any(self._unproven.holes(first, self._end)))

    def _differs_from_anchor(self, kept: Kept, at: int) -> bool:
        """Names what it lists and is not so, or at a sequence that something is not, where nobody knows what."""
        said, listing = kept.anchor, anchoring.listed_by(kept)
        if listing is not None:
            return self._differs(listing, said, "an anchor", up_to=said.last_sequence)
        # Without what was dropped of it, it cannot be hashed.
        is_there = self._scope.first <= said.first_sequence and said.last_sequence <= self._end
        is_there = is_there and self._scope.sandbox is None
        if not is_there or self._hash_of(said) == said.hash:
            return False
        if not self._findings.touch(said.first_sequence, said.last_sequence):
            detail = f"{said.first_sequence} to {said.last_sequence} are not what was anchored"
            self._findings.add(at, Fault.WRONG_ANCHOR, detail)
        return True
