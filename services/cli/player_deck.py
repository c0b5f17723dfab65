"""The recorded terminal at one place of its history, and the way to any other."""

import asyncio
import collections
import copy
import time
from typing import NamedTuple

from contracts.pacing import Timeline
from contracts.screens import DEFAULT_SIZE
from contracts.tape import Frame, FrameKind, Tape
from infra.bus.page import Entry
from infra.log.ahead import Ahead, time_of
from infra.terminal.emulator import Emulator
from services.cli.player_frames import Spot, frames_of

KEEP_EVERY = 256 * 1024
"""Bytes between two places that are kept: what it costs to go on from one is what lies behind it."""
EVENT = 200
"""What an event costs, in bytes of output."""
MOST_KEPT = 128
MOST_KEPT_BYTES = 32 * 1024 * 1024
LOOK_AGAIN_S = 0.3


class _Kept(NamedTuple):
    """Everything that is needed to go on from a place."""

    spot: Spot
    timeline: Timeline
    tape: Tape
    terminal: bytes
    label: str


class Deck:
    """Goes forward event by event; back by what it has kept on the way."""

    def __init__(self, ahead: Ahead, tape: Tape, timeline: Timeline, start: int, *, follow: bool) -> None:
        self._ahead = ahead
        self._tape = tape
        self._timeline = timeline
        self.is_following = follow
        self.terminal = Emulator(DEFAULT_SIZE.cols, DEFAULT_SIZE.rows, scrollback=0)
        self.spot = Spot(start - 1, 0.0)
        """Of the last event that was played."""
        self.label = ""
        """What was begun last."""
        self.changes = 0
        """Grows whenever there is something else to be seen."""
        self.at_end = False
        self._entries: collections.deque[Entry] = collections.deque()
        self._fetching: asyncio.Task[list[Entry]] | None = None
        self._look_at = 0.0
        self._due: tuple[int, float] | None = None
        self._kept: list[_Kept] = []
        self._every = KEEP_EVERY
        self._fed = 0
        self._keep()

    async def aclose(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def begin(self) -> None:
        """What was read until here came before: it is shown, and takes no time."""
        self.spot = Spot(self.spot.sequence, 0.0)
        self._timeline = self._timeline.from_zero()
        self._kept.clear()
        self._fed = 0
        self._keep()

    async def forward(self, goal: Spot, budget_s: float) -> bool:
        """Plays what lies at or before the goal, for about so long. Returns whether that was all."""
        deadline = time.monotonic() + budget_s
        while True:
            entry = await self._next(deadline)
            if entry is None:
                return self.at_end
            if entry.seq > goal.sequence or self._place(entry) > goal.place:
                return True
            self._play(entry)
            if time.monotonic() > deadline:
                return False

    async def step(self, budget_s: float) -> bool:
        """Plays up to the next event that changes anything. Returns whether it did, or there is none."""
        deadline, before = time.monotonic() + budget_s, self.changes
        while self.changes == before:
            entry = await self._next(deadline)
            if entry is None:
                return self.at_end
            self._play(entry)
        return True

    def next_place(self) -> float | None:
        """Of what comes next, as far as it has been read."""
        return self._place(self._entries[0]) if self._entries else None

    def go_near(self, goal: Spot) -> None:
        """To the last place that was kept before the goal, unless this is nearer: `forward` goes the rest."""
        kept = next(each for each in reversed(self._kept) if _is_before(each.spot, goal) or each is self._kept[0])
        if _is_before(self.spot, goal) and self.spot.sequence >= kept.spot.sequence:
            return
        self.terminal = Emulator.load(kept.terminal)
        self._tape, self._timeline = copy.deepcopy(kept.tape), kept.timeline.copy()
        self.spot, self.label = kept.spot, kept.label
        self._entries.clear()
        self._due = None
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
        self.at_end = False
        self._fed = 0
        self.changes += 1

    async def _next(self, deadline: float) -> Entry | None:
        """None where it takes too long, or this is the end."""
        if self._entries:
            return self._entries[0]
        if self.at_end and (not self.is_following or time.monotonic() < self._look_at):
            return None
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._ahead.page(self.spot.sequence + 1))
        await asyncio.wait([self._fetching], timeout=max(deadline - time.monotonic(), 0.001))
        if not self._fetching.done():
            return None
        fetched, self._fetching = self._fetching.result(), None
        self._entries.extend(fetched)
        self.at_end = not fetched
        self._look_at = time.monotonic() + LOOK_AGAIN_S
        return self._entries[0] if self._entries else None

    def _place(self, entry: Entry) -> float:
        if self._due is None or self._due[0] != entry.seq:
            self._due = (entry.seq, self._timeline.put(time_of(entry)))
        return self._due[1]

    def _play(self, entry: Entry) -> None:
        self.spot = Spot(entry.seq, self._place(entry))
        self._entries.popleft()
        for frame in frames_of(self._tape, entry):
            self._show(frame)
        self._fed += EVENT
        if self._fed >= self._every and self.spot.sequence > self._kept[-1].spot.sequence:
            self._keep()

    def _show(self, frame: Frame) -> None:
        if frame.kind == FrameKind.INPUT:
            return
        self.changes += 1
        if frame.kind == FrameKind.MARK:
            self.label = frame.label
        elif frame.size is not None:
            self.terminal.resize(frame.size.cols, frame.size.rows)
        else:
            self.terminal.feed(frame.data)
            self._fed += len(frame.data)

    def _keep(self) -> None:
        """With too many of them every second is given up, and fewer are made from then on."""
        terminal = self.terminal.dump()
        self._kept.append(_Kept(self.spot, self._timeline.copy(), copy.deepcopy(self._tape), terminal, self.label))
        self._fed = 0
        while len(self._kept) > 2 and (
            len(self._kept) > MOST_KEPT or sum(len(each.terminal) for each in self._kept) > MOST_KEPT_BYTES
        ):
            del self._kept[1::2]
            self._every *= 2


def _is_before(spot: Spot, goal: Spot) -> bool:
    return spot.sequence <= goal.sequence and spot.place <= goal.place
