"""Connections that nobody can hold by not saying what they want.

The server's own protocol sets no bounds to how long the head of a request takes, nor to how large it is.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
"""About: of the pieces that it comes in, the first does not count."""


class OwingHttp(HttpToolsProtocol):
    """Closes a connection whose client owes the head of a request, or the rest of one that was answered, too long."""

    owing_s: ClassVar[float] = 20.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._due: asyncio.TimerHandle | None = None
        self._heads = 0
        """That were begun."""
        self._head_bytes = 0
        self._in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._owes()

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_paid()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._heads
        super().data_received(data)
        if self._in_head and self._heads == before and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heads += 1
        self._head_bytes = 0
        self._in_head = True
        self._owes()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._has_paid()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._has_paid()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body:
            self._owes()

    def _owes(self) -> None:
        self._has_paid()
        self._due = self.loop.call_later(self.owing_s, self.transport.close)

    def _has_paid(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
