"""Pages of other origins that the settings let in: what their browsers have to be told (CORS).

With a token that they hold, never with a session's cookie.
"""

from litestar.types import Scope

from services.gateway.access.origins import Origins

ORIGIN = b"origin"
METHODS = b"GET, HEAD, POST, PUT, DELETE"
REQUEST_HEADERS = (
    b"authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, range, traceparent"
)
READABLE = b"content-range, etag, location, retry-after, traceparent"
REMEMBERED_S = b"600"


def sharing_headers(scope: Scope, origins: Origins) -> list[tuple[bytes, bytes]]:
    origin = dict(scope["headers"]).get(ORIGIN, b"")
    if not origin or not origins.is_other(origin.decode("latin-1")):
        return []
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", READABLE),
        (b"vary", ORIGIN),
    ]


def is_preflight(scope: Scope) -> bool:
    """A browser asks whether a page may ask. It comes without a token."""
    return scope.get("method") == "OPTIONS" and any(
        key == b"access-control-request-method" for key, _ in scope["headers"]
    )


PREFLIGHT = [
    (b"access-control-allow-methods", METHODS),
    (b"access-control-allow-headers", REQUEST_HEADERS),
    (b"access-control-max-age", REMEMBERED_S),
]
