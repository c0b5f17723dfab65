"""The one place that reads the wall clock for events."""

import datetime
import time


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


_BEGUN = now() - datetime.timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))


def steady() -> datetime.datetime:
    """As `now` was when this process began, and what has passed since, also while the machine slept.

    For limits of time: the wall clock may be set, and nothing must end for that.
    """
    return _BEGUN + datetime.timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))
