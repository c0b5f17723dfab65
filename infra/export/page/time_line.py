"""When things happen in a page: as they did, but nobody waits for long."""

import datetime


class TimeLine:
    def __init__(self, max_idle_ms: int) -> None:
        self._max_idle_ms = max_idle_ms
        self._before: datetime.datetime | None = None
        self._at = 0.0

    def at(self, time: datetime.datetime) -> int:
        """Milliseconds since the first. A clock that went back stands still."""
        if self._before is not None:
            gap = (time - self._before).total_seconds() * 1000
            self._at += min(max(gap, 0.0), self._max_idle_ms)
        self._before = time if self._before is None else max(time, self._before)
        return int(self._at)

    @property
    def length_ms(self) -> int:
        return int(self._at)
