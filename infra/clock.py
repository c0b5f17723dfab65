"""The one place that reads the wall clock for events."""

import datetime


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
