"""Where everything lies in a recorded session: found in the background, while it is already being played."""

import asyncio
from array import array
from bisect import bisect_left, bisect_right

from contracts.pacing import Timeline
from contracts.tape import FrameKind, Tape
from infra.bus.page import Entry
from infra.log.ahead import Ahead, time_of
from services.cli.player_frames import Spot, frames_of

BULK = (".command.output.", ".command.input.")
"""Never a mark, and most of a log."""
LOOK_AGAIN_S = 0.5


class Index:
    """Sixteen bytes an event."""

    def __init__(self, ahead: Ahead, tape: Tape, timeline: Timeline, *, follow: bool) -> None:
        self._ahead = ahead
        self._tape = tape
        self._timeline = timeline
        self._follow = follow
        self._sequences = array("q")
        self._places = array("d")
        self._marks = array("q")
        """Which of the events are marks."""
        self.is_whole = False

    @property
    def total(self) -> float:
        """Of what is known so far."""
        return self._places[-1] if self._places else 0.0

    async def build(self, start: int) -> None:
        while True:
            entries = await self._ahead.page(start)
            for entry in entries:
                self._add(entry)
            if entries:
                start = entries[-1].seq + 1
                await asyncio.sleep(0)
                continue
            self.is_whole = True
            if not self._follow:
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    def mark_after(self, sequence: int) -> Spot | None:
        at = bisect_right(self._marks, bisect_right(self._sequences, sequence) - 1)
        return self._mark(at)

    def mark_before(self, sequence: int, place: float) -> Spot | None:
        """The last mark before an event, and before a place."""
        number = min(bisect_left(self._sequences, sequence), bisect_left(self._places, place))
        return self._mark(bisect_left(self._marks, number) - 1)

    def _mark(self, at: int) -> Spot | None:
        if not 0 <= at < len(self._marks):
            return None
        number = self._marks[at]
        return Spot(self._sequences[number], self._places[number])

    def _add(self, entry: Entry) -> None:
        if self._is_mark(entry):
            self._marks.append(len(self._sequences))
        self._sequences.append(entry.seq)
        self._places.append(self._timeline.put(time_of(entry)))

    def _is_mark(self, entry: Entry) -> bool:
        if any(kind in entry.subject for kind in BULK):
            return False
        return any(frame.kind == FrameKind.MARK for frame in frames_of(self._tape, entry))
