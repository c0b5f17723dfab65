"""How much one sandbox may ask of the proxy."""

from msgspec import Struct

HEAD_BYTES = 64 * 1024
HEAD_FIELDS = 100


class Limits(Struct, frozen=True, kw_only=True):
    max_connections: int = 256
    """Of clients at once, of both ports together. Further ones are answered 503 and closed."""
    requests_per_s: float = 500.0
    burst: int = 1000
    """Requests and tunnels that may come at once before the rate holds; and new connections, counted by themselves.

    Over it the answer is 429."""
    connect_timeout_s: float = 10.0
    """For each address."""
    head_timeout_s: float = 30.0
    """From the first byte of a request to the end of its head."""
    idle_timeout_s: float = 300.0
    """Without a byte in either direction; a kept connection without a request as well."""
    gone_timeout_s: float = 2.0
    """How long a client that has ended its own side is still served while nothing moves; a tunnel is not ended so."""
