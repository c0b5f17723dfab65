"""Which services are in this process, and whether each is well."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infra.observing import catalogue


class Presence:
    def __init__(self) -> None:
        self._connected: dict[str, list[Callable[[], bool]]] = {}
        self._ready: set[str] = set()

    @property
    def services(self) -> list[str]:
        return sorted(self._connected)

    def expect(self, service: str) -> None:
        """It belongs here, whether it has started or not."""
        if service not in self._connected:
            self._connected[service] = []
            catalogue.ready.of(service).asks = (lambda: float(self.is_well(service)),)
            catalogue.connected.of(service).asks = (lambda: float(self._is_connected(service)),)

    def is_ready(self, service: str) -> None:
        self.expect(service)
        self._ready.add(service)

    def is_away(self, service: str) -> None:
        """It failed, and may be started again."""
        self._ready.discard(service)

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
        return service in self._ready and self._is_connected(service)

    def ailing(self) -> list[str]:
        return [service for service in self.services if not self.is_well(service)]

    def _is_connected(self, service: str) -> bool:
        return all(ask() for ask in self._connected[service])


_here = Presence()


def presence() -> Presence:
    """Of this process."""
    return _here
