"""What left a sandbox and what was refused, written by the egress proxy."""

from contracts.message import Fact


class NetworkAllowed(Fact, frozen=True, kw_only=True):
    host: str
    port: int
    method: str
    address: str | None = None
    path: str | None = None
    status: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    duration_ms: float = 0


class NetworkDenied(Fact, frozen=True, kw_only=True):
    host: str
    port: int
    method: str
    reason: str
    address: str | None = None
    count: int = 1
    """More than one when a storm of the same denial is told in one event."""
