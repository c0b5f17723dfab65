"""What a sandbox asked for and may not reach, and what was answered: a pure fold over its `network.*` events."""

import datetime

from msgspec import Struct
from msgspec.structs import replace

from contracts.events.network import NetworkApproved, NetworkAsked, NetworkRejected
from contracts.message import Fact

MOST_ANSWERS = 200
"""Kept, the newest: what is forgotten is asked for again."""
MOST_PENDING = 1000
QUIET = datetime.timedelta(seconds=30)
"""After a rejection, so that a client that tries again does not ask again at once."""


class Ask(Struct, frozen=True, kw_only=True):
    """Waits for an answer."""

    approval: str
    host: str
    port: int
    method: str
    asked_at: datetime.datetime
    expires_at: datetime.datetime


class Answer(Struct, frozen=True, kw_only=True):
    approval: str
    host: str
    port: int
    allowed: bool
    until: datetime.datetime | None
    """Absent = for as long as the sandbox exists."""
    command: str | None = None
    """The id of the order that answered."""

    def holds(self, now: datetime.datetime) -> bool:
        return self.until is None or now < self.until


class Approvals(Struct, frozen=True, kw_only=True):
    pending: tuple[Ask, ...] = ()
    """Oldest first."""
    answers: tuple[Answer, ...] = ()
    """That may still hold, oldest first."""

    def answer_for(self, host: str, port: int, now: datetime.datetime) -> Answer | None:
        """The newest that holds."""
        found = (each for each in reversed(self.answers) if (each.host, each.port) == (host, port) and each.holds(now))
        return next(found, None)

    def asked(self, approval: str) -> Ask | None:
        return next((ask for ask in self.pending if ask.approval == approval), None)

    def answered(self, approval: str) -> Answer | None:
        return next((each for each in reversed(self.answers) if each.approval == approval), None)


def apply(approvals: Approvals, fact: Fact, at: datetime.datetime, command: str | None = None) -> Approvals:
    """One event further. The last answer to an approval is the one that counts."""
    match fact:
        case NetworkAsked():
            ask = Ask(
                approval=fact.approval,
                host=fact.host,
                port=fact.port,
                method=fact.method,
                asked_at=at,
                expires_at=fact.expires_at,
            )
            return replace(approvals, pending=(*_without(approvals, fact.approval), ask)[-MOST_PENDING:])
        case NetworkApproved():
            return _answered(approvals, fact, at, allowed=True, until=fact.until, command=command)
        case NetworkRejected(expired=True):
            return replace(approvals, pending=_without(approvals, fact.approval))
        case NetworkRejected():
            until = None if fact.remember else at + QUIET
            return _answered(approvals, fact, at, allowed=False, until=until, command=command)
    return approvals


def _without(approvals: Approvals, approval: str) -> tuple[Ask, ...]:
    return tuple(ask for ask in approvals.pending if ask.approval != approval)


def _answered(
    approvals: Approvals,
    fact: NetworkApproved | NetworkRejected,
    at: datetime.datetime,
    *,
    allowed: bool,
    until: datetime.datetime | None,
    command: str | None,
) -> Approvals:
    answer = Answer(
        approval=fact.approval, host=fact.host, port=fact.port, allowed=allowed, until=until, command=command
    )
    kept = (each for each in approvals.answers if each.approval != fact.approval and each.holds(at))
    return Approvals(pending=_without(approvals, fact.approval), answers=(*kept, answer)[-MOST_ANSWERS:])
