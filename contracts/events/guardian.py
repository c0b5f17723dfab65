"""Findings and steps of the guardian, each with its evidence."""

from contracts.message import Fact, Time


class GuardianObserved(Fact, frozen=True, kw_only=True):
    rule: str
    finding: str
    evidence: tuple[int, ...]
    """Sequence numbers in the log."""
    run: str | None = None
    key: str = ""
    """The same for what is the same trouble going on."""
    step: str = "observe"
    """What the settings ask for."""
    held: str = ""
    """Why that was not done: `shadow`, nobody there to do it to, or a guardian that came too late."""
    count: int = 1
    """How often the same was told by now."""
    at: Time | None = None
    """When it was so, by the log's clock: the same whenever it is found."""


class GuardianIntervention(Fact, frozen=True, kw_only=True):
    rule: str
    step: str
    text: str
    evidence: tuple[int, ...]
    run: str | None = None
    key: str = ""
    count: int = 1
    at: Time | None = None
    command: str | None = None
    """The id of the command that was published."""


class GuardianEscalated(Fact, frozen=True, kw_only=True):
    """The same was found again after a step, so a further one was taken."""

    rule: str
    step: str
    reason: str
    evidence: tuple[int, ...]
    run: str | None = None
    key: str = ""
    count: int = 1
    at: Time | None = None
    command: str | None = None
