"""Which approvals are taken back with a host that is denied. Pure."""

from collections.abc import Iterable

from contracts.events.network import NetworkApproved, NetworkRejected
from contracts.hostnames import WILDCARD
from contracts.message import Fact


def approved_of(denied: Iterable[str], facts: Iterable[Fact | None]) -> list[str]:
    """Those that nobody has rejected since: of each host and port of these patterns the last.

    Also those that have run out: a tunnel may still rest on one.
    """
    patterns = tuple(denied)
    approved: dict[tuple[str, int], str] = {}
    for fact in facts:
        if isinstance(fact, NetworkApproved) and any(_covers(pattern, fact.host) for pattern in patterns):
            approved[fact.host, fact.port] = fact.approval
        elif isinstance(fact, NetworkRejected) and not fact.expired:
            approved.pop((fact.host, fact.port), None)
    return list(approved.values())


def _covers(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith(WILDCARD) else host == pattern
