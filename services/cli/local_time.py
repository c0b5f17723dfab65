"""Times of the log as the clock on this machine shows them."""

import datetime


def local(at: datetime.datetime) -> datetime.datetime:
    """At the very ends of all times there is no other zone: those stay in their own."""
    try:
        return at.astimezone()
    except OverflowError:
        return at
