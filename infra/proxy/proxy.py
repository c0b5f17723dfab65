"""The proxy of one sandbox."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self, cast

from infra.proxy.answers import answer
from infra.proxy.bucket import Bucket
from infra.proxy.connection import Connection
from infra.proxy.forwarding import Forwarding
from infra.proxy.limits import Limits
from infra.proxy.port import Gate, Refused
from infra.proxy.route import Route, verifying
from infra.proxy.routing import Routing
from infra.proxy.upstream import Upstreams

LOOK_S = 1.0
LOOKS = 4
"""In the shortest of the time limits."""


class Proxy:
    """Serves from `serve` to `aclose`. Every connection is its own; none is shared with another sandbox's proxy."""

    def __init__(self, gate: Gate, limits: Limits | None = None) -> None:
        self._gate = gate
        self._limits = limits = Limits() if limits is None else limits
        self._upstreams = Upstreams(limits.connect_timeout_s)
        self._forwarding = Forwarding(gate, self._upstreams, Bucket(limits.requests_per_s, limits.burst))
        self._arrivals = Bucket(limits.requests_per_s, limits.burst)
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._look: asyncio.TimerHandle | None = None
        shortest = min(limits.head_timeout_s, limits.idle_timeout_s, limits.gone_timeout_s)
        self._look_s = min(LOOK_S, shortest / LOOKS)
        self._closed = False

    async def serve(self, listener: socket.socket) -> None:
        """From now on, requests that come there are served; returns at once. The socket is the proxy's to close."""
        await self._listen(listener, self._forwarding.serve)

    async def serve_routes(
        self, listener: socket.socket, routes: Mapping[str, Route], tls: ssl.SSLContext | None = None
    ) -> None:
        """The same for routes, by their name. `routes` is looked into for each request, and may change.

        `tls` is for the connections to their hosts; absent, the system's authorities are read.
        """
        self._upstreams.tls = await asyncio.to_thread(verifying) if tls is None else tls
        await self._listen(listener, Routing(self._gate, self._forwarding, routes).serve)

    async def aclose(self) -> None:
        """Everything that is under way is cut, and has told its end to its passage when this returns."""
        self._closed = True
        for server in self._servers:
            server.close()
        tasks = [each.task for each in self._connections if each.task is not None]
        for connection in list(self._connections):
            connection.cut("the proxy was closed")
        if tasks:
            await asyncio.wait(tasks)
        self._upstreams.close()
        if self._look is not None:
            self._look.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _listen(self, listener: socket.socket, serve: Callable[[Connection], Awaitable[None]]) -> None:
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(lambda: _Admitted(self, serve), sock=listener))

    def admit(self, connection: Connection) -> Refused | None:
        """Why a connection is not taken on."""
        if self._closed:
            return Refused("the proxy was closed", 503)
        refusal = self._too_many()
        if refusal is not None:
            self._gate.refused(None, refusal.reason)
            return refusal
        self._connections.add(connection)
        self._look_later()
        return None

    def _too_many(self) -> Refused | None:
        # What is malformed ends its connection, so this bounds how often that is read, too.
        if not self._arrivals.take():
            return Refused("too many connections one after another", 429)
        if len(self._connections) >= self._limits.max_connections:
            return Refused(f"more than {self._limits.max_connections} connections", 503)
        return None

    def dismiss(self, connection: Connection) -> None:
        self._connections.discard(connection)

    @property
    def limits(self) -> Limits:
        return self._limits

    def _look_later(self) -> None:
        if self._look is None and not self._closed:
            self._look = asyncio.get_running_loop().call_later(self._look_s, self._look_at_all)

    def _look_at_all(self) -> None:
        self._look = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            connection.check(now)
        self._upstreams.sweep()
        if self._connections or not self._upstreams.empty:
            self._look_later()


class _Admitted(Connection):
    """Within the number of connections that the sandbox may have."""

    def __init__(self, proxy: Proxy, serve: Callable[[Connection], Awaitable[None]]) -> None:
        super().__init__(proxy.limits, serve)
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        refusal = self._proxy.admit(self)
        if refusal is None:
            super().connection_made(transport)
            return
        self.transport = cast("asyncio.Transport", transport)
        self.write(answer(refusal, None, close=True))
        self.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._proxy.dismiss(self)
        super().connection_lost(exc)
