"""How fast the log is read behind the backs of those who write it."""

import asyncio
from collections import deque
from typing import NamedTuple

REST = 9.0
"""While others write, so many times as long as a page took is left to them: the more they do, the longer it takes."""
LONGEST_REST_S = 1.0
"""However busy they are, the log is followed at a page each time."""
LEAST_PATIENCE_S = 1.0
MOST_PATIENCE_S = 10.0
"""So long something may wait to be read before there is less rest: as `checkpoint_s`, within these two."""
NO_REST_AFTER = 4.0
"""Times as long: then there is none, or the chain would fall behind for as long as they write."""
SPARE = 0.75
"""Of a log that drops its beginning: as long as so much of it was read, nothing is about to be dropped unproven."""
FIRST_IDLE_S = 0.2
LONGEST_IDLE_S = 2.0
_STEP_S = 1.0
_STEPS = 64
"""Further back than any patience ends."""


class Stand(NamedTuple):
    """What the log has, and the first of it that was not read yet."""

    first: int
    last: int
    next: int

    @property
    def is_about_to_be_dropped(self) -> bool:
        """The log's limits drop what is oldest, and what was not read is most of what they have left."""
        return self.first > 1 and self.next - self.first < (self.last + 1 - self.first) * SPARE


def patience_s(checkpoint_s: float) -> float:
    return min(max(checkpoint_s, LEAST_PATIENCE_S), MOST_PATIENCE_S)


def rest_s(worked_s: float, waits_s: float, patience_s: float, stand: Stand) -> float:
    """After a page, while others write. `waits_s` is how long the oldest event that was not read is there already."""
    if stand.is_about_to_be_dropped:
        return 0.0
    hurry = (waits_s / patience_s - 1) / (NO_REST_AFTER - 1)
    return min(worked_s * REST, LONGEST_REST_S) * min(max(1 - hurry, 0.0), 1.0)


class Waiting:
    """Since when the events that were not read yet are there, by where the log ended at which time."""

    def __init__(self) -> None:
        self._ends: deque[tuple[int, float]] = deque(maxlen=_STEPS)

    def ends(self, last: int, now: float) -> None:
        if not self._ends or now - self._ends[-1][1] >= _STEP_S:
            self._ends.append((last, now))

    def waits_s(self, following: int, now: float) -> float:
        """How long the first of them is there, at least: some seconds too little, and more so after a minute."""
        while self._ends and self._ends[0][0] < following:
            self._ends.popleft()
        return now - self._ends[0][1] if self._ends else 0.0

    def forget(self) -> None:
        """It is another log, or begins again."""
        self._ends.clear()


class Pace:
    def __init__(self, checkpoint_s: float) -> None:
        self._patience_s = patience_s(checkpoint_s)
        self._waiting = Waiting()
        self._others = 0
        self._idle_s = FIRST_IDLE_S

    def begin(self) -> None:
        """What was seen of the log counts no more: it may have been cut."""
        self._waiting.forget()

    def sees(self, last: int) -> None:
        """Where the log ends."""
        self._waiting.ends(last, asyncio.get_running_loop().time())

    async def rest(self, worked_s: float, stand: Stand, own: int) -> None:
        """After a page that took so long. `own` is how many of the log's events we wrote ourselves."""
        busy = stand.last - own != self._others
        self._others, self._idle_s = stand.last - own, FIRST_IDLE_S
        waits_s = self._waiting.waits_s(stand.next, asyncio.get_running_loop().time())
        await asyncio.sleep(rest_s(worked_s, waits_s, self._patience_s, stand) if busy else 0)

    async def idle(self) -> None:
        """Longer each time, as long as there is nothing to do."""
        await asyncio.sleep(self._idle_s)
        self._idle_s = min(self._idle_s * 2, LONGEST_IDLE_S)
