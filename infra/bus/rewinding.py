"""A log that lost its end gives the same sequences to other events: whoever follows it has to notice."""

import time
from typing import Any

from contracts import subjects
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.gaps import Gap


class Mark:
    """The newest message that a follower knows of. That it is still the same one says that nothing was given again."""

    def __init__(self) -> None:
        self._seq = 0
        self._stored_at = ""
        self._epoch = 0
        self._doubted_since: float | None = None

    @property
    def seq(self) -> int:
        return self._seq

    def has_doubted(self, seconds: float) -> bool:
        """Whether it is so long since this was first asked, or since `doubtless`."""
        now = time.monotonic()
        self._doubted_since = self._doubted_since or now
        return now - self._doubted_since >= seconds

    def doubtless(self) -> None:
        self._doubted_since = None

    def move(self, seq: int, stored_at: str, epoch: int | None = None) -> None:
        if seq >= self._seq or epoch is not None:
            self._seq, self._stored_at = seq, stored_at
        self._epoch = self._epoch if epoch is None else epoch

    async def rewound(self, bus: Bus, *, state: dict[str, Any], epoch: int) -> Gap | None:
        """What was lost and is given again, if the log ends earlier than it did or has another message here.

        The log is looked at after a lost connection only: no server gives a sequence twice in one life.
        Raises `Unavailable`.
        """
        head = state["last_seq"]
        if not self._seq or (head >= self._seq and epoch == self._epoch) or await self._still_there(bus, state):
            return None
        # Its clock goes on, so what it gave again it stored after what was known here.
        found = await page.fetch(bus, subjects.LOG, 1, since=self._stored_at, limit=1)
        first = found.entries[0].seq if found.entries else head + 1
        return Gap(first, self._seq) if first <= self._seq else None

    async def _still_there(self, bus: Bus, state: dict[str, Any]) -> bool:
        if state["last_seq"] <= self._seq:
            return bool(state["last_seq"] == self._seq and state["last_ts"] == self._stored_at)
        entry = await page.fetch_one(bus, self._seq)
        return entry is None or entry.stored_at == self._stored_at
