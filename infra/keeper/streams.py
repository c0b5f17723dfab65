"""The descriptors of a command's output: read without blocking, cut into frames, put on the record."""

import asyncio
import fcntl
import os
import struct
import termios
from collections import deque

from infra.keeper.frame import Kind
from infra.keeper.framer import Cut, Framer
from infra.keeper.record import Record

PIPE_BYTES = 256 * 1024
DISK_RETRY_S = 0.5


class Streams:
    """Reads until every stream is at its end. Stops reading while the backlog is over its limit, or the disk full.

    Memory is bounded whatever the rate: 64 KiB per stream and the frames of one read.
    """

    def __init__(self, record: Record, backlog_limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._record = record
        self._backlog_limit = backlog_limit
        self._framer = Framer()
        self._open: dict[Kind, int] = {}
        self._unwritten: deque[Cut] = deque()
        self._reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self.ended = asyncio.Event()
        self._flowing = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def begin(self, descriptors: dict[Kind, int]) -> None:
        """Takes over the descriptors."""
        self._open = descriptors
        for fd in descriptors.values():
            os.set_blocking(fd, False)
        self._adjust()

    def put(self, kind: Kind, payload: bytes = b"") -> None:
        """A frame of another kind, after all output that was read before."""
        self._write([*self._framer.flush(self._loop.time()), Cut(kind, payload)])

    def put_at_once(self, kind: Kind, payload: bytes) -> bool:
        """Like `put`, but nothing is kept for later: False where the disk refuses now."""
        self._write(self._framer.flush(self._loop.time()))
        if self._unwritten:
            return False
        try:
            self._record.append(kind, payload)
        except OSError:
            return False
        return True

    async def written(self) -> None:
        """Until everything that was read or put is in the spool."""
        await self._written.wait()

    def resume(self) -> None:
        """To be called when more of the record was confirmed."""
        self._adjust()

    async def settle(self, quiet_s: float) -> None:
        """Until every stream has ended, or `quiet_s` of reading later, with all that was in the pipes by then."""
        while not self.ended.is_set():
            await self._flowing.wait()
            try:
                async with asyncio.timeout(quiet_s):
                    await self.ended.wait()
            except TimeoutError:
                if self._reading:
                    break
        self._read_present()
        self._write(self._framer.flush(self._loop.time()))
        await self.written()

    def descriptor(self, kind: Kind) -> int | None:
        return self._open.get(kind)

    def stop_reading(self) -> None:
        """Closes what is still open."""
        for kind in list(self._open):
            self._end(kind)

    def close(self) -> None:
        self.stop_reading()
        for handle in (self._timer, self._retry):
            if handle is not None:
                handle.cancel()

    def _adjust(self) -> None:
        wanted = not self._unwritten and self._record.backlog <= self._backlog_limit
        if wanted != self._reading:
            self._reading = wanted
            for kind, fd in self._open.items():
                if wanted:
                    self._loop.add_reader(fd, self._on_readable, kind)
                else:
                    self._loop.remove_reader(fd)
        (self._flowing.set if wanted else self._flowing.clear)()
        if not self._open:
            self.ended.set()

    def _on_readable(self, kind: Kind) -> None:
        self._read(kind, self._framer.room(kind))
        self._schedule()

    def _read(self, kind: Kind, most: int) -> int:
        try:
            data = os.read(self._open[kind], most)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""  # a terminal says so when its last user is gone
        if data:
            self._write(self._framer.feed(kind, data, self._loop.time()))
        else:
            self._write(self._framer.end(kind, self._loop.time()))
            self._end(kind)
        return len(data)

    def _read_present(self) -> None:
        for kind, fd in list(self._open.items()):
            present = _bytes_present(fd)
            while present > 0 and kind in self._open:
                read = self._read(kind, min(present, self._framer.room(kind)))
                present = present - read if read else 0

    def _end(self, kind: Kind) -> None:
        fd = self._open.pop(kind)
        self._loop.remove_reader(fd)
        os.close(fd)
        if not self._open:
            self.ended.set()

    def _schedule(self) -> None:
        if self._timer is None and (deadline := self._framer.deadline) is not None:
            self._timer = self._loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        deadline = self._framer.deadline
        if deadline is not None and self._loop.time() >= deadline:
            self._write(self._framer.tick(self._loop.time()))
        self._schedule()

    def _write(self, cuts: list[Cut]) -> None:
        self._unwritten.extend(cuts)
        if self._retry is not None:
            self._retry.cancel()
        while self._unwritten:
            try:
                self._record.append(*self._unwritten[0])
            except OSError:
                # A full disk stops the command's output, and loses none of it.
                self._retry = self._loop.call_later(DISK_RETRY_S, self._write, [])
                self._written.clear()
                break
            self._unwritten.popleft()
        else:
            self._written.set()
        self._adjust()


def _bytes_present(fd: int) -> int:
    (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))
    return int(count)


def widen_pipe(fd: int) -> None:
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        return  # the user's quota of pipe memory is used up: the usual size works too
