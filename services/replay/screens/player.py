"""Plays a command's events up to a sequence, from the nearest terminal that is remembered."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NamedTuple

from contracts import subjects
from contracts.errors import Unavailable
from infra.bus.page import Entry
from infra.log.view import LogView
from services.replay.past.snapshots import mark_of
from services.replay.screens.playing import Played
from services.replay.screens.remembered import Remembered, RememberedScreens

AT_ONCE = 2
"""Long ones: each takes a processor and some megabytes."""
BATCH_BYTES = 1 << 18
"""Played in one go, away from the event loop."""
WORK_S = 60.0
"""Of a processor for one question: a program can write what costs a terminal a lot."""


class Spacing(NamedTuple):
    """After so much of either a terminal is remembered: from there a later question begins."""

    work_s: float = 0.1
    bytes: int = 8 << 20


class ScreenPlayer:
    def __init__(
        self,
        remembered: RememberedScreens,
        spacing: Spacing = Spacing(),  # noqa: B008
        *,
        most_work_s: float = WORK_S,
    ) -> None:
        self._remembered = remembered
        self._most_work_s = most_work_s
        self._spacing = spacing
        self._playing: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()
        self._places = asyncio.Semaphore(AT_ONCE)

    async def at(self, view: LogView, sandbox: str, exec_id: str, sequence: int) -> Played:
        """After the last of its events up to a sequence.

        Raises `Unavailable`, also for what takes too long: whoever asks again goes on from there.
        """
        # Whoever asks for the same command next finds what this one leaves. A place is taken only by who goes further
        # than to what is remembered next: the others are quick.
        async with self._playing.setdefault((sandbox, exec_id), asyncio.Lock()), AsyncExitStack() as taken:
            base = await self._base(view, sandbox, exec_id, sequence)
            played = Played() if base is None else base.played
            work, size, left, is_long = 0.0, 0, self._most_work_s, False
            async for batch in _batches(view, sandbox, exec_id, 1 if base is None else base.sequence + 1, sequence):
                spent = await asyncio.to_thread(_play, played, batch)
                work, left = work + spent, left - spent
                size += sum(len(entry.data) for entry in batch)
                if work >= self._spacing.work_s or size >= self._spacing.bytes:
                    await asyncio.to_thread(self._remembered.keep, sandbox, exec_id, batch[-1], played)
                    work, size = 0.0, 0
                    if not is_long:
                        await taken.enter_async_context(self._places)
                        is_long = True
                if left <= 0 and batch[-1].seq < sequence:
                    await asyncio.to_thread(self._remembered.keep, sandbox, exec_id, batch[-1], played)
                    raise Unavailable(f"the screen of {exec_id!r} takes long to draw: ask again, and it goes on")
            return played

    async def _base(self, view: LogView, sandbox: str, exec_id: str, sequence: int) -> Remembered | None:
        base = await asyncio.to_thread(self._remembered.nearest, sandbox, exec_id, sequence)
        if base is None:
            return None
        first = (await view.bounds()).first
        if base.sequence < first - 1:
            # Events that followed it may be forgotten.
            return None
        if base.sequence >= first and not await _continues(view, sandbox, exec_id, base):
            await asyncio.to_thread(self._remembered.forget, sandbox, exec_id)
            return None
        return base


def _play(played: Played, batch: list[Entry]) -> float:
    """Returns the seconds that it took."""
    began = time.thread_time()
    played.play(batch)
    return time.thread_time() - began


def events_of(sandbox: str, exec_id: str) -> str:
    return subjects.events_of(sandbox, family="command", scope=exec_id)[0]


async def _continues(view: LogView, sandbox: str, exec_id: str, base: Remembered) -> bool:
    """Whether the log has the event that it ends with."""
    entry = await view.first(events_of(sandbox, exec_id), start=base.sequence)
    return entry is not None and entry.seq == base.sequence and mark_of(entry) == base.event


async def _batches(view: LogView, sandbox: str, exec_id: str, start: int, end: int) -> AsyncIterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    async for entry in view.read([events_of(sandbox, exec_id)], start, end=end):
        batch.append(entry)
        size += len(entry.data)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
