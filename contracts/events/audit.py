"""The hash chain over the log, written by replay (see `contracts.chain`); and messages that somebody gave up on."""

from contracts.errors import Failure
from contracts.message import Fact
from contracts.payload import Encoding


class AuditCheckpoint(Fact, frozen=True, kw_only=True):
    """Everything from `first_sequence` to `last_sequence` of the log, proven. Each continues the one before it."""

    first_sequence: int
    last_sequence: int
    hash: str
    """sha256 over `previous` and the leaf of each sequence, in hexadecimal."""
    previous: str
    """The hash of the checkpoint before; that of the first is made of the log's name."""
    key: str
    """The public key (Ed25519), in hexadecimal."""
    signature: str
    """In hexadecimal."""
    log: str = ""
    """The log's own name, made with its first key: what belongs to another log does not pass for this one."""
    leaves: str = ""
    """For each sequence that is not missing the beginning of its leaf and the mark of its sandbox, in base64: which
    one is wrong, and whose it was."""
    missing: tuple[tuple[int, int], ...] = ()
    """Sequences, from and to, that the log had lost when this was written."""


class AuditRotated(Fact, frozen=True, kw_only=True):
    """From here on checkpoints are signed by another key."""

    log: str
    key: str
    """The one that signed until now."""
    next: str
    signature: str
    """By `key`. Empty where that key was lost: then nothing but the operator's word connects the two."""
    proof: str
    """By `next`."""
    reason: str = ""


class AuditStandby(Fact, frozen=True, kw_only=True):
    """A node that does not sign has a key of its own ready, for when the one that does is gone. Scope: the node."""

    log: str
    node: str
    key: str
    proof: str
    """By `key`: nobody announces a key that he has not got."""


class AuditHeir(Fact, frozen=True, kw_only=True):
    """A rotation that the key which signs now has signed in advance: its heir may publish it. Scope: its node."""

    log: str
    key: str
    """The one that signs now."""
    node: str
    next: str
    signature: str
    """By `key`, over what a rotation to `next` is signed over."""


class AuditDamaged(Fact, frozen=True, kw_only=True):
    """The log is not what it was."""

    first_sequence: int
    last_sequence: int
    fault: str
    """See `contracts.chain.Fault`."""
    detail: str
    found: str
    """`start`, `check` or `reading`."""


class DeadLetter(Fact, frozen=True, kw_only=True):
    """Written by whoever gave up, on `dead_letter.<service>`."""

    subject: str
    reason: Failure
    delivered: int
    size: int
    data: str
    """The message, cut to its first 16 KiB."""
    encoding: Encoding
    truncated: bool = False
