"""Findings and steps of the guardian, each with its evidence."""

from contracts.message import Fact


class GuardianObserved(Fact, frozen=True, kw_only=True):
    rule: str
    finding: str
    evidence: tuple[int, ...]
    """Sequence numbers in the log."""


class GuardianIntervention(Fact, frozen=True, kw_only=True):
    rule: str
    step: str
    text: str
    evidence: tuple[int, ...]


class GuardianEscalated(Fact, frozen=True, kw_only=True):
    rule: str
    step: str
    reason: str
    evidence: tuple[int, ...]
