"""Times as whole milliseconds since 1970: exact, and the same there and back."""

import datetime

_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ONE = datetime.timedelta(milliseconds=1)


def milliseconds(time: datetime.datetime) -> int:
    """The last whole one that had passed."""
    return (time - _START) // _ONE


def moment(at_ms: int) -> datetime.datetime:
    return _START + at_ms * _ONE
