"""What left a sandbox and what was refused, as a pure fold over its events, bounded."""

from msgspec import Struct

from contracts.conversation import brief
from contracts.events.network import NetworkAllowed, NetworkBatch, NetworkDenied
from contracts.message import EventHead, Fact, Time
from contracts.runs import plus_whole

KEPT = 200
BRIEF = 500
"""Characters of a host, a path, a reason."""


class Request(Struct, frozen=True, kw_only=True):
    sequence: int
    at: Time
    allowed: bool
    host: str
    port: int
    method: str
    path: str | None = None
    status: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    reason: str = ""
    """Why it was refused, or what ended it before its time."""
    count: int = 1


class Traffic(Struct, frozen=True, kw_only=True):
    requests: tuple[Request, ...] = ()
    """The last ones, oldest first."""
    earlier: int = 0
    allowed: int = 0
    denied: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


def apply(traffic: Traffic, sequence: int, head: EventHead, fact: Fact) -> Traffic:
    """One event further. The same object where nothing changed."""
    match fact:
        case NetworkAllowed():
            return _passed(traffic, sequence, head, (fact,))
        case NetworkBatch():
            return _passed(traffic, sequence, head, fact.requests)
        case NetworkDenied():
            return _denied(traffic, sequence, head, fact)
    return traffic


def _passed(traffic: Traffic, sequence: int, head: EventHead, facts: tuple[NetworkAllowed, ...]) -> Traffic:
    if not facts:
        return traffic
    requests = tuple(_request(sequence, head, fact) for fact in facts[-KEPT:])
    unseen = len(facts) - len(requests)
    lines = (*traffic.requests, *requests)
    return Traffic(
        requests=lines[-KEPT:],
        earlier=traffic.earlier + unseen + max(len(lines) - KEPT, 0),
        allowed=traffic.allowed + len(facts),
        denied=traffic.denied,
        sent_bytes=plus_whole(traffic.sent_bytes, sum(fact.sent_bytes for fact in facts)),
        received_bytes=plus_whole(traffic.received_bytes, sum(fact.received_bytes for fact in facts)),
    )


def _request(sequence: int, head: EventHead, fact: NetworkAllowed) -> Request:
    return Request(
        sequence=sequence,
        at=head.time,
        allowed=True,
        host=brief(fact.host, BRIEF),
        port=fact.port,
        method=brief(fact.method, BRIEF),
        path=None if fact.path is None else brief(fact.path, BRIEF),
        status=fact.status,
        sent_bytes=fact.sent_bytes,
        received_bytes=fact.received_bytes,
        reason=brief(fact.error or "", BRIEF),
    )


def _denied(traffic: Traffic, sequence: int, head: EventHead, fact: NetworkDenied) -> Traffic:
    refused = Request(
        sequence=sequence,
        at=head.time,
        allowed=False,
        host=brief(fact.host, BRIEF),
        port=fact.port,
        method=brief(fact.method, BRIEF),
        reason=brief(fact.reason, BRIEF),
        count=fact.count,
    )
    lines = (*traffic.requests, refused)
    return Traffic(
        requests=lines[-KEPT:],
        earlier=traffic.earlier + max(len(lines) - KEPT, 0),
        allowed=traffic.allowed,
        denied=plus_whole(traffic.denied, fact.count),
        sent_bytes=traffic.sent_bytes,
        received_bytes=traffic.received_bytes,
    )
