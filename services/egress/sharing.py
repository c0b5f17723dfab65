"""The connections that the sandboxes of a node may have at once, so that none takes the descriptors of all."""

from collections.abc import Iterator
from contextlib import contextmanager

from infra.proxy.connection import Connection
from infra.proxy.limits import Limits
from infra.proxy.port import Gate, Refused
from infra.proxy.proxy import Proxy

DESCRIPTORS_EACH = 3
"""The client, what it is connected to, and its part of what is kept open for the next request."""
SCARCE = "too many connections of all sandboxes of this node"


class Share:
    """What one sandbox has."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()


class Connections:
    """At most half of the descriptors, for the rest of the node needs some, too.

    Half of these are for whoever comes first; then each sandbox has its equal part of them, however much others have.
    """

    def __init__(self, descriptors: int) -> None:
        self._free_for_all = max(descriptors // (4 * DESCRIPTORS_EACH), 1)
        self._shares: set[Share] = set()

    @contextmanager
    def share(self) -> Iterator[Share]:
        share = Share()
        self._shares.add(share)
        try:
            yield share
        finally:
            self._shares.discard(share)

    def have_room(self, share: Share) -> bool:
        if sum(len(each.connections) for each in self._shares) < self._free_for_all:
            return True
        return len(share.connections) < max(self._free_for_all // len(self._shares), 1)


class SharingProxy(Proxy):
    """Also keeps within what the node has for all."""

    def __init__(self, gate: Gate, limits: Limits, all_connections: Connections, share: Share) -> None:
        super().__init__(gate, limits)
        self._refused = gate.refused
        self._all = all_connections
        self._share = share

    def admit(self, connection: Connection) -> Refused | None:
        if not self._all.have_room(self._share):
            self._refused(None, SCARCE)
            return Refused(SCARCE, 503)
        refusal = super().admit(connection)
        if refusal is None:
            self._share.connections.add(connection)
        return refusal

    def dismiss(self, connection: Connection) -> None:
        super().dismiss(connection)
        self._share.connections.discard(connection)
