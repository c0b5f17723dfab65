"""The hash chain over the log, as arithmetic: what a checkpoint says, and where something does not agree with it.

A *leaf* is the sha256 of one stored message: its sequence, its subject, its `Nats-Msg-Id`, the time that the server
stored it, and its payload. A checkpoint covers a range of sequences without a hole; its hash is the sha256 of the hash
before it and of all leaves of the range. So that a fault can be named, it also lists the beginning of each leaf, with a
mark of the sandbox that it belongs to: that one sandbox's events are complete can be shown without the others'.
Sequences that the store had lost before they could be hashed are named as ranges, and have one leaf together.
"""

import base64
import hashlib
import re
import struct
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from contracts.audits import Anchor
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint, AuditHeir, AuditRotated, AuditStandby
from contracts.ids import is_token
from contracts.message import Time
from contracts.subjects import sandbox_of

LEAF_BYTES = 16
MARK_BYTES = 4
EACH = LEAF_BYTES + MARK_BYTES
MOST_EVENTS = 20_000
"""Of one checkpoint: it has to fit into a message."""
MOST_GAPS = 1000
"""Of one checkpoint."""
GENESIS = "cloche log "
_NUMBER = struct.Struct(">Q")
_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">QI")
_HASH = re.compile(r"[0-9a-f]{64}\Z")


class Fault(StrEnum):
    CHANGED = "changed"
    """The event is not the one that the checkpoint was made of."""
    MISSING = "missing"
    """The checkpoint knows an event that is not there."""
    UNEXPECTED = "unexpected"
    """There is an event that the checkpoint does not know."""
    LOST = "lost"
    """The store had lost it before it could be proven."""
    BROKEN_CHAIN = "broken_chain"
    """A checkpoint does not continue the one before it."""
    WRONG_HASH = "wrong_hash"
    """A checkpoint contradicts itself."""
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KEY = "unknown_key"
    """Signed, but by a key that nobody vouches for."""
    WRONG_ANCHOR = "wrong_anchor"
    """A checkpoint kept elsewhere says otherwise."""
    TRUNCATED = "truncated"
    """The log ends before what a checkpoint kept elsewhere has seen."""
    BLOB_MISSING = "blob_missing"
    BLOB_CHANGED = "blob_changed"
    UNREADABLE = "unreadable"


class Message(NamedTuple):
    """A stored message, as far as the chain is concerned."""

    sequence: int
    subject: str
    id: str
    stored_at: str
    payload: bytes


def leaf(message: Message) -> bytes:
    # One call for all of it: twice as fast as four, and every event of a log goes through here.
    sequence, subject, id_, stored_at, payload = message
    named, known, stored = subject.encode(), id_.encode(), stored_at.encode()
    return hashlib.sha256(
        b"".join(
            (
                _HEAD.pack(sequence, len(named)),
                named,
                _LENGTH.pack(len(known)),
                known,
                _LENGTH.pack(len(stored)),
                stored,
                payload,
            )
        )
    ).digest()


def missing_leaf(first: int, last: int) -> bytes:
    """Stands for sequences that the store had lost before anybody could hash them."""
    return hashlib.sha256(b"missing" + _NUMBER.pack(first) + _NUMBER.pack(last)).digest()


def mark(log: str, sandbox: str) -> bytes:
    """Tells the events of one sandbox from the others'. Not a secret, not a proof."""
    return hashlib.sha256(f"{log}/{sandbox}".encode()).digest()[:MARK_BYTES]


def genesis(log: str) -> str:
    """What the first checkpoint of a log continues."""
    return hashlib.sha256(f"{GENESIS}{log}".encode()).hexdigest()


class Listed(NamedTuple):
    """What a checkpoint tells of one sequence."""

    leaf: bytes
    mark: bytes


class Range:
    """The leaves of a range that grows, sequence by sequence."""

    def __init__(self, log: str, first: int, previous: str) -> None:
        self.log = log
        self.first = first
        self.next = first
        self.previous = previous
        self.missing: list[tuple[int, int]] = []
        self._hash = hashlib.sha256(bytes.fromhex(previous))
        self._listed = bytearray()

    def __len__(self) -> int:
        """How many events: what is missing does not count."""
        return len(self._listed) // EACH

    @property
    def is_full(self) -> bool:
        return len(self) >= MOST_EVENTS or len(self.missing) >= MOST_GAPS

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()

    def add(self, message: Message) -> bytes:
        """The next one; returns its leaf. Raises `Invalid` for one that is not the next."""
        return self.add_leaf(message.sequence, leaf(message), mark(self.log, sandbox_of(message.subject)))

    def add_leaf(self, sequence: int, whole: bytes, sandbox: bytes) -> bytes:
        """The next one, hashed and marked already. Raises `Invalid` for one that is not the next."""
        if sequence != self.next:
            raise Invalid(f"sequence {sequence} does not follow {self.next - 1}")
        self._hash.update(whole)
        self._listed += whole[:LEAF_BYTES] + sandbox
        self.next += 1
        return whole

    def add_missing(self, first: int, last: int) -> None:
        """The store has lost these. Raises `Invalid` if they are not the next."""
        if first != self.next or last < first:
            raise Invalid(f"sequence {first} to {last} does not follow {self.next - 1}")
        self.missing.append((first, last))
        self._hash.update(missing_leaf(first, last))
        self.next = last + 1

    def checkpoint(self, key: str) -> AuditCheckpoint:
        """Not signed yet: see `statement`. Raises `Invalid` for an empty range."""
        if self.next == self.first:
            raise Invalid("there is nothing to prove")
        return AuditCheckpoint(
            first_sequence=self.first,
            last_sequence=self.next - 1,
            hash=self.hash,
            previous=self.previous,
            key=key,
            signature="",
            log=self.log,
            leaves=base64.b64encode(self._listed).decode(),
            missing=tuple(self.missing),
        )


def is_possible(said: AuditCheckpoint, at: int) -> bool:
    """Whether what is stored at a sequence can be a checkpoint at all. That it is ours, only its signature says."""
    is_before = 1 <= said.first_sequence <= said.last_sequence < at
    return is_before and is_token(said.log) and all(_HASH.match(each) for each in (said.hash, said.previous))


def anchor(checkpoint: AuditCheckpoint, time: Time) -> Anchor:
    """What is kept of it elsewhere: enough to check its signature, and that the log still says the same."""
    return Anchor(
        log=checkpoint.log,
        first_sequence=checkpoint.first_sequence,
        last_sequence=checkpoint.last_sequence,
        previous=checkpoint.previous,
        hash=checkpoint.hash,
        key=checkpoint.key,
        signature=checkpoint.signature,
        leaves_sha256=leaves_sha256(checkpoint),
        missing=checkpoint.missing,
        time=time,
    )


def leaves_sha256(checkpoint: AuditCheckpoint) -> str:
    return hashlib.sha256(checkpoint.leaves.encode()).hexdigest()


def statement(said: AuditCheckpoint | Anchor) -> bytes:
    """What the signature of a checkpoint is over; the same for its anchor."""
    gaps = ",".join(f"{first}-{last}" for first, last in said.missing)
    return "\n".join(
        (
            "cloche audit checkpoint 1",
            said.log,
            f"{said.first_sequence} {said.last_sequence}",
            said.previous,
            said.hash,
            said.leaves_sha256 if isinstance(said, Anchor) else leaves_sha256(said),
            gaps,
            said.key,
        )
    ).encode()


def rotation_statement(rotated: AuditRotated | AuditHeir) -> bytes:
    """What both signatures of a rotation are over, also of one that is signed in advance."""
    return "\n".join(("cloche audit rotation 1", rotated.log, rotated.key, rotated.next)).encode()


def standby_statement(standby: AuditStandby) -> bytes:
    """What a key that stands by signs about itself."""
    return "\n".join(("cloche audit standby 1", standby.log, standby.node, standby.key)).encode()


def listed(checkpoint: AuditCheckpoint) -> dict[int, Listed]:
    """What it tells of each of its sequences, in order, without those that it says are missing.

    Raises `Invalid` where that is not one for each, or more than a checkpoint may have.
    """
    try:
        raw = base64.b64decode(checkpoint.leaves, validate=True)
    except ValueError as error:
        raise Invalid(f"leaves are not base64: {error}") from error
    spans = list(_present(checkpoint))
    count = sum(last - first + 1 for first, last in spans)
    if count > MOST_EVENTS or len(raw) != count * EACH:
        raise Invalid(f"{len(raw)} bytes of leaves for {count} sequences")
    sequences = (sequence for first, last in spans for sequence in range(first, last + 1))
    pieces = (raw[at : at + EACH] for at in range(0, len(raw), EACH))
    return {
        sequence: Listed(piece[:LEAF_BYTES], piece[LEAF_BYTES:])
        for sequence, piece in zip(sequences, pieces, strict=True)
    }


def _present(checkpoint: AuditCheckpoint) -> Iterator[tuple[int, int]]:
    """The ranges of what is not missing. Raises `Invalid` where what is missing is not within, or not in order."""
    following = checkpoint.first_sequence
    if following < 1 or checkpoint.last_sequence < following or len(checkpoint.missing) > MOST_GAPS:
        raise Invalid(f"{following} to {checkpoint.last_sequence} is no range of a checkpoint")
    for first, last in checkpoint.missing:
        if not following <= first <= last <= checkpoint.last_sequence:
            raise Invalid(f"{first} to {last} cannot be missing there")
        if following < first:
            yield following, first - 1
        following = last + 1
    if following <= checkpoint.last_sequence:
        yield following, checkpoint.last_sequence
