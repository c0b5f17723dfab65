"""What all who follow share."""

import contextlib
from collections.abc import Iterator

from contracts.access import Principal
from infra.bus.connection import Bus
from infra.client import Cloche
from services.gateway import metrics
from services.gateway.access.places import Places
from services.gateway.live.feed import Feeds
from services.gateway.live.pulse import Pulse

MOST_FOLLOWERS = 1000
MOST_OF_ONE = 250


class Live:
    """Of one log."""

    def __init__(self, bus: Bus, places: Places) -> None:
        self.bus = bus
        self.feeds = Feeds(bus)
        self.pulse = Pulse(bus)
        self.places = places

    @contextlib.contextmanager
    def place(self, kind: str, principal: Principal) -> Iterator[None]:
        """`kind` is websocket or sse. Raises `TooManyRequests`."""
        with self.places.taken(principal), metrics.following(kind):
            yield


class Lives:
    """Of each partition."""

    def __init__(self, cloche: Cloche) -> None:
        self.cloche = cloche
        places = Places("followers", MOST_FOLLOWERS, MOST_OF_ONE)
        self.by_number = {number: Live(part.bus, places) for number, part in cloche.parts.items()}

    def of(self, sandbox: str) -> Live:
        return self.by_number[self.cloche.number_of(sandbox)]

    @property
    def first(self) -> Live:
        """The only one, where the log is not divided."""
        return next(iter(self.by_number.values()))
