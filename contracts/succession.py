"""Who signs the log after whom: rotations that count, keys that stand by, and heirs that the key has named. Pure."""

from typing import NamedTuple

from contracts.chain import rotation_statement, standby_statement
from contracts.events.audit import AuditHeir, AuditRotated, AuditStandby
from contracts.keyring import Check


def counts(rotated: AuditRotated, log: str, check: Check) -> bool:
    """The new key says so, and the old one too, unless that was lost."""
    said = rotation_statement(rotated)
    return (
        rotated.log == log
        and check(rotated.next, said, rotated.proof)
        and (not rotated.signature or check(rotated.key, said, rotated.signature))
    )


def is_announced(standby: AuditStandby, log: str, node: str, check: Check) -> bool:
    """By whoever has the key, for this log and this node."""
    return (standby.log, standby.node) == (log, node) and check(standby.key, standby_statement(standby), standby.proof)


def is_signed(heir: AuditHeir, log: str, check: Check) -> bool:
    return heir.log == log and check(heir.key, rotation_statement(heir), heir.signature)


class Standing(NamedTuple):
    """A node that has a key ready."""

    node: str
    key: str
    since: int
    """The sequence of its announcement."""
    heir: AuditHeir | None = None
    """The last one that was named for this node."""
    named: int = 0
    """The sequence of that."""

    def is_heir_of(self, key: str) -> bool:
        return self.heir is not None and (self.heir.key, self.heir.next) == (key, self.key)

    def waits_for(self, key: str) -> bool:
        """To be named by this key. Who announces itself again has to be named again: a log with limits drops both."""
        return not self.is_heir_of(key) or self.named < self.since
