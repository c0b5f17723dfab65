"""What left a sandbox, what was refused, and what waits for an answer, written by the egress proxy."""

import datetime

from contracts.message import Fact


class NetworkAllowed(Fact, frozen=True, kw_only=True):
    """A request or a tunnel that was let through, told at its end."""

    host: str
    port: int
    method: str
    address: str | None = None
    """The one that was connected to."""
    path: str | None = None
    """Without its query."""
    status: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    duration_ms: float = 0.0
    via: str = "http"
    """`http`, `connect`, `socks`, or `route` for the address of a secret."""
    secret: str | None = None
    """The name of the credential that was added."""
    error: str | None = None
    """What ended it before its time."""
    began_at: datetime.datetime | None = None


class NetworkDenied(Fact, frozen=True, kw_only=True):
    host: str
    port: int
    method: str
    reason: str
    address: str | None = None
    count: int = 1
    """More than one when a storm of the same denial is told in one event."""
    via: str = "http"


class NetworkBatch(Fact, frozen=True, kw_only=True):
    """A burst of requests in one event, in the order in which they ended."""

    requests: tuple[NetworkAllowed, ...]


class NetworkAsked(Fact, frozen=True, kw_only=True):
    approval: str
    host: str
    port: int
    method: str
    expires_at: datetime.datetime
    """Without an answer by then it is denied."""


class NetworkApproved(Fact, frozen=True, kw_only=True):
    approval: str
    host: str
    port: int
    reason: str = ""
    remember: bool = False
    until: datetime.datetime | None = None
    """Absent = for as long as the sandbox exists."""
    by: str | None = None


class NetworkRejected(Fact, frozen=True, kw_only=True):
    approval: str
    host: str
    port: int
    reason: str = ""
    remember: bool = False
    expired: bool = False
    """Nobody answered."""
    by: str | None = None


class NetworkAttached(Fact, frozen=True, kw_only=True):
    """From now on requests of this life of the sandbox are served."""

    instance: str
    way: str
    """How its network namespace was reached, in words."""
    proxy: str
    routes: str | None = None
    """Where the routes of its secrets are, if it has any."""


class NetworkUnattached(Fact, frozen=True, kw_only=True):
    """There is no way out of this life of the sandbox, though its specification wants one."""

    instance: str
    reason: str
