"""The gateway's own figures. Whoever does something says so here in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from litestar import MediaType, Request, Response, get

from contracts.access import Principal, Role
from contracts.errors import ClocheError, Forbidden, TooManyRequests, Unauthenticated
from infra.observing import catalogue, denials
from infra.observing.exposition import CONTENT_TYPE_LATEST, exposition
from services.gateway.desk import require

UNKNOWN = "unknown"


def answered(method: str, route: str, status: int, seconds: float) -> None:
    """`route` is its template, never a path that somebody asked for: those are without end."""
    catalogue.requests.add(method, route, str(status))
    catalogue.request_seconds.observe(seconds, route)


def refused(error: ClocheError) -> None:
    """What the gateway itself does not allow. What services behind it refuse, they count."""
    if isinstance(error, Unauthenticated | Forbidden | TooManyRequests):
        denials.failed("gateway", error.code)


@contextmanager
def following(kind: str) -> Iterator[None]:
    """For as long as somebody follows; `kind` is websocket or sse."""
    line = catalogue.followers.of(kind)
    line.add()
    try:
        yield
    finally:
        line.add(-1)


def sent(events: int, size: int) -> None:
    """To one follower."""
    catalogue.events_sent.add(amount=events)
    catalogue.event_bytes_sent.add(amount=size)


def dropped_slow_client() -> None:
    catalogue.slow_clients.add()


def feed_lag(seconds: float) -> None:
    """From when an event was stored until a feed had it."""
    catalogue.feed_lag.set(seconds)


@get(
    "/metrics", media_type=MediaType.TEXT, operation_id="getFigures", summary="Figures for Prometheus", tags=["health"]
)
async def metrics(request: Request[Principal, Any, Any]) -> Response[bytes]:
    """Of the gateway itself. Takes a token of role admin."""
    require(request.user, Role.ADMIN)
    # Litestar adds the charset to every text by itself.
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST.partition("; charset=")[0])
