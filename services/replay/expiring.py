"""Writes what the log's limits are about to drop to files, before they do, where settings ask for it."""

import asyncio
import datetime
import logging
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from contracts import subjects
from contracts.errors import ClocheError, Conflict
from contracts.streams import LOG_STREAM
from infra import clock
from infra.bus import page
from infra.bus.connection import Bus
from infra.export.jsonl import EVERY_EVENT, Span, stored_bytes
from infra.export.segments import Segment, Segments
from infra.log.live import LiveView
from infra.settings import Retention

logger = logging.getLogger(__name__)

EVERY_S = 5.0
SEGMENT_EVENTS = 20_000
GOAL = 0.5
"""Once it has to be done, so much more is done that it need not be done again at once: a part of `export_at`."""


class _Log(NamedTuple):
    first: int
    last: int
    bytes: int
    max_bytes: int
    max_age: datetime.timedelta | None


def unexported_bytes(log_bytes: int, first: int, segments: list[Segment]) -> float:
    """Of a log that begins at `first` now: what is in no segment."""
    return log_bytes - sum(_left(segment, first) for segment in segments)


def _left(segment: Segment, first: int) -> float:
    """What the log still has of a segment, as if its events were of one size."""
    count = segment.last - segment.first + 1
    return segment.bytes * max(0, segment.last - max(segment.first, first) + 1) / count


class Expiring:
    def __init__(self, bus: Bus, retention: Retention, now: Callable[[], datetime.datetime] = clock.now) -> None:
        self._bus = bus
        self._retention = retention
        self._now = now
        self._complaint = ""
        self._missed_after = 0

    async def run(self) -> None:
        """For ever, or not at all. What goes wrong is told once, and tried again."""
        if self._retention.export_to is None:
            return
        while True:
            try:
                await self.catch_up()
            except (ClocheError, OSError, sqlite3.Error) as error:
                self._complain(f"what the log is about to drop cannot be written to files: {error}")
            else:
                self._complaint = ""
            await asyncio.sleep(EVERY_S)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            logger.error("%s", text)

    async def catch_up(self) -> list[Span]:
        """What was written. Raises `OSError`, `sqlite3.Error`, `Unavailable`, `Conflict` (files of another log)."""
        if self._retention.export_to is None:
            return []
        segments, written = Segments(self._retention.export_to), list[Span]()
        async with segments.open() as ours:
            goal = False
            while ours and (span := await self._due(await segments.all(), at_goal=goal)) is not None:
                await segments.write(LiveView(self._bus), span)
                written.append(span)
                # Now that it is being done, some more is done than has to be.
                goal = True
        return written

    async def _due(self, segments: list[Segment], *, at_goal: bool) -> Span | None:
        """The next segment; None while nothing has to be written."""
        log = _log(await self._bus.api(f"STREAM.INFO.{LOG_STREAM}"))
        last = segments[-1].last if segments else 0
        if last > log.last:
            raise Conflict(
                f"the files there reach to sequence {last}, and the log ends at {log.last}: it is another one"
            )
        begin = max(last + 1, log.first)
        if segments and begin > last + 1 and last != self._missed_after:
            self._missed_after = last
            logger.error("sequence %d to %d were dropped before they were written to a file", last + 1, begin - 1)
        if begin > log.last:
            return None
        part = self._retention.export_at * (GOAL if at_goal else 1)
        end = max(await self._by_age(log, begin, part), await self._by_size(log, begin, segments, part))
        if end < begin:
            return None
        if not at_goal:
            return await self._due(segments, at_goal=True)
        return Span(begin, min(end, begin + SEGMENT_EVENTS - 1))

    async def _by_age(self, log: _Log, begin: int, part: float) -> int:
        """The last sequence that is too old; before `begin` if none is."""
        if log.max_age is None:
            return 0
        young = await page.fetch(self._bus, subjects.LOG, begin, since=self._now() - log.max_age * part, limit=1)
        return young.entries[0].seq - 1 if young.entries else log.last

    async def _by_size(self, log: _Log, begin: int, segments: list[Segment], part: float) -> int:
        """How far it has to be written so that no more than the part of the limit is in no segment."""
        if log.max_bytes <= 0:
            return 0
        surplus = unexported_bytes(log.bytes, log.first, segments) - log.max_bytes * part
        if surplus <= 0:
            return 0
        end = min(log.last, begin + SEGMENT_EVENTS - 1)
        async for entry in LiveView(self._bus).read([EVERY_EVENT], begin, end=end):
            surplus -= stored_bytes(entry)
            if surplus <= 0:
                return entry.seq
        return end


def _log(info: dict[str, Any]) -> _Log:
    state, config = info["state"], info["config"]
    age = datetime.timedelta(microseconds=config["max_age"] / 1000) if config.get("max_age") else None
    return _Log(state["first_seq"], state["last_seq"], state["bytes"], config.get("max_bytes", -1), age)
