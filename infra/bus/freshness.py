"""Notices that this process was stopped, or its machine asleep: what it was about to say may not be its to say now."""

import asyncio
import time

from nats.aio.transport import TcpTransport

STALE_S = 4.0
"""Others wait longer before they speak for somebody who has lost a sandbox: see `services/executor/orphans.py`."""
TICK_S = 0.5
CLOSE_S = 0.5


class Freshness:
    """Nothing is counted before the first `tick`. A stop is remembered until `renew`, whoever notices it first."""

    def __init__(self) -> None:
        self._alive_at: float | None = None
        self._was_stopped = False

    def tick(self) -> None:
        """To be called every `TICK_S`."""
        self._was_stopped = self.was_stopped
        self._alive_at = _now()

    @property
    def was_stopped(self) -> bool:
        return self._was_stopped or (self._alive_at is not None and _now() - self._alive_at > STALE_S)

    def renew(self) -> None:
        """The connection is a new one: whatever was on its way before has been forgotten."""
        self._was_stopped = False
        if self._alive_at is not None:
            self._alive_at = _now()


def _now() -> float:
    """Goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class FencedTransport(TcpTransport):
    """Lets nothing out that waited in a process which was stopped meanwhile: the connection breaks instead, and whoever
    sent it looks again at what the log says before it is sent once more.
    """

    def __init__(self, opened: TcpTransport, freshness: Freshness) -> None:
        """In place of one that is connected: the library makes its own."""
        super().__init__()  # type: ignore[no-untyped-call]
        vars(self).update(vars(opened))
        self._freshness = freshness
        self._closed: asyncio.Task[None] | None = None

    def writelines(self, payload: list[bytes]) -> None:
        if self._freshness.was_stopped:
            self.abort()
            raise ConnectionResetError("this process was stopped for a while")
        super().writelines(payload)  # type: ignore[no-untyped-call]

    async def wait_closed(self) -> None:
        """Not for ever: where TLS fails, nobody tells the end of the stream, and the next server is to be tried.

        Whoever gives up waiting takes nothing from the others: the stream's own way would be cancelled for all of them.
        """
        if self._closed is None:
            self._closed = asyncio.create_task(super().wait_closed())  # type: ignore[no-untyped-call]
            # Whatever it says, it is no news after the time is up.
            self._closed.add_done_callback(lambda closed: closed.cancelled() or closed.exception())
        done, _ = await asyncio.wait([self._closed], timeout=CLOSE_S)
        for closed in done:
            closed.result()

    def abort(self) -> None:
        """Also what waits for the socket to take it is gone."""
        if self._io_writer is not None:
            self._io_writer.transport.abort()
