"""Bytes on their way into a command, without ever blocking on it."""

import asyncio
import os
from collections import deque
from typing import NamedTuple

from infra.keeper.once import Once
from infra.keeper.protocol import Written
from infra.keeper.record import Record

WAITING_BYTES = 1024**3
VEOF = b"\x04"


class Piece(NamedTuple):
    """Where in the record a frame of stdin has its bytes."""

    position: int
    size: int


class StdinFeed:
    """Owns the descriptor. A command that closed its end just gets nothing more.

    What a command has not read yet waits in its record on disk, up to 1 GiB; one piece at a time is in memory.
    """

    def __init__(self, record: Record, fd: int | None, *, terminal: bool) -> None:
        self._record = record
        self._fd = fd
        self._terminal = terminal
        self._pieces: deque[Piece] = deque()
        self._waiting = 0
        self._current = bytearray()
        self._ids = Once()
        self._ending = False
        self._eof_typed = not terminal
        self._watching = False

    @property
    def ended(self) -> bool:
        return self._ending

    def refusal(self, total: int, data: bytes, offset: int | None, write_id: str | None) -> Written | None:
        """The answer where nothing new is to be written; None where there is."""
        if write_id in self._ids:
            return Written(accepted=True, offset=total)
        if offset is not None and offset > total:
            return Written(accepted=False, offset=total, reason="gap")
        new = data if offset is None else data[total - offset :]
        if self._ending:
            return Written(accepted=not new, offset=total, reason="closed" if new else None)
        if self._waiting + len(new) > WAITING_BYTES:
            return Written(accepted=False, offset=total, reason="busy")
        return None

    def remember(self, write_id: str | None) -> None:
        self._ids.add(write_id)

    def push(self, piece: Piece) -> None:
        if self._fd is not None:
            self._pieces.append(piece)
            self._waiting += piece.size
            self._pin()
            self._drain()

    def end(self) -> None:
        """Half-close, once everything before has been read."""
        self._ending = True
        self._drain()

    def close(self) -> None:
        """Drops what is waiting. Later writes are taken and go nowhere."""
        self._pieces.clear()
        self._current.clear()
        self._waiting = 0
        self._pin()
        self._unwatch()
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _drain(self) -> None:
        try:
            while self._fd is not None and self._refill():
                del self._current[: os.write(self._fd, self._current)]
        except BlockingIOError:
            self._watch()
            return
        except OSError:
            self.close()
            return
        self._unwatch()
        if self._ending and not self._terminal:
            self.close()

    def _refill(self) -> bool:
        """False when there is nothing to write. Raises OSError where the record cannot be read."""
        if not self._current and self._pieces:
            piece = self._pieces.popleft()
            self._current += self._record.read(*piece)
            self._waiting -= piece.size
            self._pin()
        elif not self._current and self._ending and not self._eof_typed:
            self._current += VEOF
            self._eof_typed = True
        return bool(self._current)

    def _pin(self) -> None:
        """What waits is not removed from the disk, though the log may have it."""
        self._record.pinned = self._pieces[0].position if self._pieces else None

    def _watch(self) -> None:
        if not self._watching and self._fd is not None:
            asyncio.get_running_loop().add_writer(self._fd, self._drain)
            self._watching = True

    def _unwatch(self) -> None:
        if self._watching and self._fd is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._watching = False
