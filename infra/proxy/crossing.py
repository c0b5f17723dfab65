"""One permission, from when it is given to its one end."""

import asyncio
from types import TracebackType
from typing import Self

from infra.proxy.answers import Failed
from infra.proxy.connection import Connection
from infra.proxy.port import Passage, Refused
from infra.proxy.wire import Broken, Wire

CLOSED = "the proxy was closed"


class Crossing:
    """Left by `with`, it tells the passage how it ended, whatever the way."""

    def __init__(self, passage: Passage, client: Connection) -> None:
        self.status: int | None = None
        self.error: str | None = None
        """Set where it failed: whatever still leaves the block was not why."""
        self._passage = passage
        self._client = client
        self._denied = False
        self._sent = 0
        self._received = 0
        self._over = False
        passage.on_cut(self._cut)

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._passage.addresses

    def through(self, upstream: Wire, address: str) -> None:
        """What goes over it from now on counts."""
        self._count()
        self._sent -= upstream.sent
        self._received -= upstream.received
        self._client.upstream = upstream
        self._passage.connected(address)

    def deny(self, reason: str) -> None:
        """What has passed already can no longer be denied: it ends with the reason."""
        if self._has_passed():
            self.error = reason
        else:
            self._denied = True
            self._passage.deny(reason)

    def release(self) -> None:
        """The connection to the other side is somebody else's from now on."""
        self._count()

    def _has_passed(self) -> bool:
        """Something, either way."""
        upstream = self._client.upstream
        assert upstream is not None
        return self._sent + upstream.sent > 0 or self._received + upstream.received > len(upstream.held)

    def _cut(self, reason: str) -> None:
        if not self._over:
            self._client.cut(reason)

    def _count(self) -> None:
        upstream = self._client.upstream
        if upstream is not None:
            self._sent += upstream.sent - upstream.unsent()
            self._received += upstream.received
            self._client.upstream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        upstream = self._client.upstream
        self._over = True
        self._count()
        if upstream is not None:
            upstream.abort()
        if not self._denied:
            reason = self._reason(error) if error is not None and self.error is None else self.error
            self._passage.end(status=self.status, sent=self._sent, received=self._received, error=reason)
        # It knows us by `on_cut`: with each request a cycle would be left for the collector.
        del self._passage

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, asyncio.CancelledError):
            return CLOSED if self._client.stopped is None else self._client.stopped.reason
        if isinstance(error, (Failed, Refused)):
            return error.reason
        return "the connection was lost" if isinstance(error, Broken) else type(error).__name__
