"""The one place that reads the clocks: the wall clock for what is told, the steady one for how long it may last."""

import datetime
import time


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def steady() -> float:
    """Seconds that pass evenly, also while the machine sleeps. Nobody can set this clock; it says nothing elsewhere."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


SLACK_S = 1.0
"""Two readings of one clock may differ by so much."""
_BEGUN = now() - datetime.timedelta(seconds=steady())


def steady_at(moment: datetime.datetime) -> float:
    """What the steady clock said at a moment of the log, as far as the wall clock tells now.

    For limits of time: to be asked once, when the moment is first seen, so that nothing ends because the wall clock is
    set later. Where it was set since this process began, the younger age counts: the moment may be of either time. What
    the log tells is past, even where its clock was ahead of this one.
    """
    at = steady()
    wall = (now() - moment).total_seconds()
    as_begun = (_BEGUN - moment).total_seconds() + at
    return at - min((max(age, 0.0) for age in (wall, as_begun) if age > -SLACK_S), default=0.0)


class Moments:
    """`steady_at` of named moments that come up again and again: the first answer stands until it is forgotten."""

    def __init__(self) -> None:
        self._fixed: dict[str, tuple[datetime.datetime, float]] = {}

    def steady_at(self, name: str, moment: datetime.datetime) -> float:
        """Another moment under the same name takes its place."""
        known = self._fixed.get(name)
        if known is None or known[0] != moment:
            known = self._fixed[name] = (moment, steady_at(moment))
        return known[1]

    def forget(self, name: str) -> None:
        self._fixed.pop(name, None)
