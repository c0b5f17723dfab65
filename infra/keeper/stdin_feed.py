"""Bytes on their way into a command, without ever blocking on it."""

import asyncio
import os

from infra.keeper.protocol import Written

QUEUE_BYTES = 1024 * 1024
IDS_REMEMBERED = 1024
VEOF = b"\x04"


class StdinFeed:
    """Owns the descriptor. A command that closed its end just gets nothing more."""

    def __init__(self, fd: int | None, *, terminal: bool) -> None:
        self._fd = fd
        self._terminal = terminal
        self._queue = bytearray()
        self._ids: dict[str, None] = {}
        self._ending = False
        self._watching = False

    @property
    def ended(self) -> bool:
        return self._ending

    def refusal(self, total: int, data: bytes, offset: int | None, write_id: str | None) -> Written | None:
        """The answer where nothing new is to be written; None where there is."""
        if write_id is not None and write_id in self._ids:
            return Written(accepted=True, offset=total)
        if offset is not None and offset > total:
            return Written(accepted=False, offset=total, reason="gap")
        new = data if offset is None else data[total - offset :]
        if self._ending:
            return Written(accepted=not new, offset=total, reason="closed" if new else None)
        if len(self._queue) + len(new) > QUEUE_BYTES:
            return Written(accepted=False, offset=total, reason="busy")
        return None

    def remember(self, write_id: str | None) -> None:
        if write_id is not None:
            self._ids[write_id] = None
            if len(self._ids) > IDS_REMEMBERED:
                del self._ids[next(iter(self._ids))]

    def push(self, data: bytes) -> None:
        if self._fd is not None:
            self._queue += data
            self._drain()

    def end(self) -> None:
        """Half-close, once the queue has drained."""
        self._ending = True
        if self._terminal and self._fd is not None:
            self._queue += VEOF
        self._drain()

    def close(self) -> None:
        """Drops what is queued. Later writes are taken and go nowhere."""
        self._queue.clear()
        self._unwatch()
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _drain(self) -> None:
        try:
            while self._queue and self._fd is not None:
                del self._queue[: os.write(self._fd, self._queue)]
        except BlockingIOError:
            self._watch()
            return
        except OSError:
            self.close()
            return
        self._unwatch()
        if self._ending and not self._terminal:
            self.close()

    def _watch(self) -> None:
        if not self._watching and self._fd is not None:
            asyncio.get_running_loop().add_writer(self._fd, self._drain)
            self._watching = True

    def _unwatch(self) -> None:
        if self._watching and self._fd is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._watching = False
