"""What a paced replay plays and tells, as it comes: lossy by nature, so it says when it may have lost something."""

import asyncio
import collections
from typing import NamedTuple

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.replays import PASS_HEADER, SEQUENCE_HEADER, ReplayStatus
from infra.bus import headers
from infra.bus.connection import Bus

MAX_BYTES = 8 * 1024 * 1024
OVERHEAD = 1024


class Heard(NamedTuple):
    """An event of a replay."""

    sequence: int
    passes: int
    subject: str
    """As in the log."""
    data: bytes


class Feed:
    """Of one replay. `status` is the newest that was told, whether or not anybody takes what comes."""

    def __init__(self, bus: Bus, replay: str) -> None:
        self._bus = bus
        self._replay = replay
        self._status_subject = subjects.replay_status(replay).encode()
        self._prefix = subjects.replay_of(replay).removesuffix(">")
        self._waiting: collections.deque[Heard | ReplayStatus] = collections.deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self.lost = False
        self.status: ReplayStatus | None = None
        self.told = asyncio.Event()
        """Set with each status."""
        self._tap: int | None = None

    async def open(self) -> None:
        """In place at the server when this returns."""
        self._tap = await self._bus.tap(subjects.replay_of(self._replay), self._arrived)
        self._stop_watching = self._bus.on_lost(self._lose)

    async def aclose(self) -> None:
        if self._tap is not None:
            self._stop_watching()
            await self._bus.client.untap(self._tap)
            self._tap = None

    def reset(self) -> None:
        """From here on nothing is missing, until it is."""
        self._waiting.clear()
        self._bytes = 0
        self.lost = False

    async def next(self, patience_s: float) -> Heard | ReplayStatus | None:
        """In the order in which they were played; None when something may be missing, or nothing came for so long."""
        try:
            async with asyncio.timeout(patience_s):
                while not self._waiting and not self.lost:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return None
        if self.lost:
            return None
        item = self._waiting.popleft()
        self._bytes -= OVERHEAD + (len(item.data) if isinstance(item, Heard) else 0)
        return item

    def _arrived(self, subject: bytes, _reply: bytes, data: bytes, raw: bytes | None) -> None:
        if subject == self._status_subject:
            self._told(data)
        else:
            self._played(subject, data, raw)

    def _told(self, data: bytes) -> None:
        try:
            status: ReplayStatus = codec.decode(data, ReplayStatus)
        except Invalid:
            return
        self.status = status
        self.told.set()
        self._add(status, 0)

    def _played(self, subject: bytes, data: bytes, raw: bytes | None) -> None:
        sequence, passes = headers.get(raw, SEQUENCE_HEADER.encode()), headers.get(raw, PASS_HEADER.encode())
        if sequence and passes and sequence.isdigit() and passes.isdigit():
            original = f"{subjects.ROOT}.log.{subject.decode('utf-8', 'replace').removeprefix(self._prefix)}"
            self._add(Heard(int(sequence), int(passes), original, data), len(data))

    def _add(self, item: Heard | ReplayStatus, size: int) -> None:
        if self.lost:
            return
        self._bytes += size + OVERHEAD
        self._waiting.append(item)
        if self._bytes > MAX_BYTES:
            self._lose()
        self._news.set()

    def _lose(self) -> None:
        self.lost = True
        self._waiting.clear()
        self._bytes = 0
        self._news.set()
