"""Serves what was opened in a sandbox: the proxy, and the routes of its secrets."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contracts.egress import PROXY_PORT, ROUTES_PORT
from contracts.errors import Invalid
from contracts.state import SandboxState
from infra.netns.entrance import Entered
from infra.proxy.limits import Limits
from infra.proxy.proxy import Proxy
from infra.proxy.route import verifying
from infra.secrets.store import SecretStore
from infra.settings import Egress
from services.egress.gates import Gates
from services.egress.secret_routes import routes_of
from services.egress.sharing import Connections, SharingProxy


class Serving:
    def __init__(self, gates: Gates, settings: Egress, store: SecretStore, connections: Connections) -> None:
        self._gates = gates
        self._settings = settings
        self._store = store
        self._connections = connections
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def __call__(self, state: SandboxState, entered: Entered) -> AsyncIterator[None]:
        """For as long as the block lasts; then everything that is under way is cut."""
        gate, limits = self._gates.gate(state), limits_of(self._settings)
        with self._connections.share() as share:
            async with SharingProxy(gate, limits, self._connections, share) as proxy:
                await self._listen(proxy, state, entered)
                yield

    async def _listen(self, proxy: Proxy, state: SandboxState, entered: Entered) -> None:
        for port, listener in entered.listeners.items():
            # Each gets a copy, for a server closes its own.
            if port == ROUTES_PORT:
                tls = await self._trusted()
                await proxy.serve_routes(listener.dup(), routes_of(state.spec, self._store), tls)
            elif port == PROXY_PORT:
                await proxy.serve(listener.dup())

    async def _trusted(self) -> ssl.SSLContext:
        """Read when it is first needed, for that takes a while. Raises `Invalid` for a file that cannot be read."""
        if self._tls is None:
            try:
                self._tls = await asyncio.to_thread(verifying, self._settings.ca_file)
            except (OSError, ssl.SSLError) as error:
                raise Invalid(f"egress.ca_file: {self._settings.ca_file}: {error}") from error
        return self._tls


def limits_of(settings: Egress) -> Limits:
    return Limits(
        max_connections=settings.max_connections,
        requests_per_s=settings.requests_per_s,
        burst=settings.burst,
        connect_timeout_s=settings.connect_timeout_s,
        head_timeout_s=settings.head_timeout_s,
        idle_timeout_s=settings.idle_timeout_s,
    )
