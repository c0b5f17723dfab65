"""Requests to egress on `cloche.rpc.<node>.<sandbox>.egress.<verb>`, and their answers."""

from msgspec import Struct

from contracts.message import Order

PROXY_PORT = 3128
ROUTES_PORT = 3129
"""On the loopback of the sandbox."""


class Attach(Order, frozen=True, kw_only=True):
    """Listen in this life of the sandbox, before any command runs there."""

    instance: str
    sequence: int = 0
    """The last event of the sandbox's lifecycle that whoever asks knows: what is older does not count."""


class Attached(Struct, frozen=True, kw_only=True):
    way: str
    """How its network namespace was reached, in words."""


REQUESTS: dict[str, type[Order]] = {"attach": Attach}
ANSWERS: dict[str, type[Struct]] = {"attach": Attached}
