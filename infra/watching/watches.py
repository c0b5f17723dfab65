"""All workspaces of a node watched through one inotify instance, read by one thread."""

import asyncio
import errno
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from contracts.errors import Unavailable
from infra.watching import inotify
from infra.watching.dirty import Dirty
from infra.watching.inotify import Inotify, Notice

logger = logging.getLogger(__name__)


class Watch:
    """One workspace's part. `cover` and `forget` may be called from any thread."""

    def __init__(self, watches: "Watches", on_news: Callable[[], None]) -> None:
        self._watches = watches
        self._on_news = on_news
        self._dirty = Dirty()
        self._told = False
        self._numbers: dict[bytes, int] = {}
        self._leaving = (0, b"")
        """The last move whose other end was not seen yet: the kernel tells both in a row."""
        self.last_notice = 0.0
        """By the monotonic clock."""

    def cover(self, directory: int, path: bytes) -> bool:
        """Hear of changes directly in an open directory, whose path is this now; call it before listing it.

        False where the kernel gives no more watches. Raises `OSError` for a directory that is gone.
        """
        try:
            number = self._watches.add(self, directory, path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                return False
            raise
        self._numbers[path] = number
        return True

    def covers(self, path: bytes) -> bool:
        return path in self._numbers

    def forget(self, path: bytes) -> None:
        """Of a directory that is no longer at this path. Where it was found again at another, it stays covered."""
        number = self._numbers.pop(path, None)
        if number is not None:
            self._watches.drop(self, number, path)

    def take(self) -> Dirty:
        """What became dirty since the last call."""
        with self._watches.lock:
            taken, self._dirty, self._told = self._dirty, Dirty(), False
        return taken

    def put_back(self, dirty: Dirty) -> None:
        """What could not be looked at after all."""
        with self._watches.lock:
            self._dirty.merge(dirty)
            self.tell()

    def detach(self) -> None:
        for path in list(self._numbers):
            self.forget(path)
        self._watches.leave(self)

    def note(self, path: bytes, notice: Notice) -> None:
        directory = notice.mask & inotify.IS_DIRECTORY and notice.mask & inotify.APPEARS
        inside = b"/".join(part for part in (path, notice.name) if part)
        self._dirty.add(inside, tree=bool(directory))
        if notice.mask & inotify.CLOSE_WRITE:
            self._dirty.add_written(inside)
        if notice.mask & inotify.MOVED_FROM:
            self._leaving = (notice.cookie, inside)
        elif notice.mask & inotify.MOVED_TO and self._leaving[0] == notice.cookie and not self._dirty.everything:
            self._dirty.moves[inside] = self._leaving[1]
        self.tell()

    def overflowed(self) -> None:
        self._dirty.overflow = self._dirty.doubt = True
        self._dirty.add_everything()
        self.tell()

    def tell(self) -> None:
        self.last_notice = time.monotonic()
        if not self._told:
            self._told = True
            self._watches.call(self._on_news)


class _Place(NamedTuple):
    watch: Watch
    path: bytes


class Watches:
    """An async context manager: the reading thread lives as long as it."""

    def __init__(self) -> None:
        """Raises `OSError` where the kernel gives no inotify instance."""
        self.lock = threading.Lock()
        """Held while notices are read and handed out, so whoever has it sees all that were read or none."""
        self._inotify = Inotify()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._places: dict[int, _Place] = {}
        self._members: set[Watch] = set()
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._read, name="inotify", daemon=True)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        os.eventfd_write(self._wake, 1)
        await asyncio.to_thread(self._thread.join)
        self._inotify.close()
        os.close(self._wake)

    async def outlast(self) -> None:
        """For ever. Raises `Unavailable` if nobody reads the notices any more."""
        await self._over.wait()
        raise Unavailable("the thread that reads inotify has ended")

    def attach(self, on_news: Callable[[], None]) -> Watch:
        """`on_news` is called in the event loop, once for what is dirty until it is taken."""
        watch = Watch(self, on_news)
        with self.lock:
            self._members.add(watch)
        return watch

    def leave(self, watch: Watch) -> None:
        with self.lock:
            self._members.discard(watch)

    def drain(self) -> None:
        """Blocks until every notice of what happened before this call has been handed out."""
        with self.lock:
            left = self._inotify.waiting()
            while left > 0:
                batch = self._inotify.read()
                if not batch.size:
                    return
                left -= batch.size
                self._hand_out(batch.notices)

    def add(self, watch: Watch, directory: int, path: bytes) -> int:
        with self.lock:
            number = self._inotify.add(directory)
            self._places[number] = _Place(watch, path)
        return number

    def drop(self, watch: Watch, number: int, path: bytes) -> None:
        with self.lock:
            if self._places.get(number) == (watch, path):
                del self._places[number]
                self._inotify.remove(number)

    def call(self, back: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(back)

    def _read(self) -> None:
        try:
            self._read_until_woken()
        except OSError:
            logger.exception("reading inotify")
            self.call(self._over.set)

    def _read_until_woken(self) -> None:
        poll = select.poll()
        poll.register(self._inotify.descriptor, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake in ready:
                return
            with self.lock:
                self._hand_out(self._inotify.read().notices)

    def _hand_out(self, notices: list[Notice]) -> None:
        for notice in notices:
            if notice.mask & inotify.OVERFLOW:
                for watch in self._members:
                    watch.overflowed()
                continue
            place = self._places.get(notice.watch)
            if place is None:
                continue
            if notice.mask & inotify.IGNORED:
                del self._places[notice.watch]
            else:
                place.watch.note(place.path, notice)
