"""Which services are in this process, and whether each is well."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infra.observing import catalogue


class Place:
    """Of one service that belongs here. There are several with one name where a process serves several partitions."""

    def __init__(self) -> None:
        self.is_ready = False
        """Not before it has started, nor while it has failed and may be started again."""


class Presence:
    def __init__(self) -> None:
        self._connected: dict[str, list[Callable[[], bool]]] = {}
        self._places: dict[str, list[Place]] = {}

    @property
    def services(self) -> list[str]:
        return sorted(self._connected)

    def expect(self, service: str) -> Place:
        """It belongs here, whether it has started or not."""
        if service not in self._connected:
            self._connected[service] = []
            catalogue.ready.of(service).asks = (lambda: float(self.is_well(service)),)
            catalogue.connected.of(service).asks = (lambda: float(self._is_connected(service)),)
        place = Place()
        self._places.setdefault(service, []).append(place)
        return place

    @contextmanager
    def connection(self, service: str, is_connected: Callable[[], bool]) -> Iterator[None]:
        """For as long as a service has one. Of whoever is no service, such as a client, nothing is known here."""
        if service not in self._connected:
            yield
            return
        self._connected[service].append(is_connected)
        try:
            yield
        finally:
            self._connected[service].remove(is_connected)

    def is_well(self, service: str) -> bool:
        """All that are called so."""
        return all(place.is_ready for place in self._places[service]) and self._is_connected(service)

    def ailing(self) -> list[str]:
        return [service for service in self.services if not self.is_well(service)]

    def _is_connected(self, service: str) -> bool:
        return all(ask() for ask in self._connected[service])


_here = Presence()


def presence() -> Presence:
    """Of this process."""
    return _here
