"""A moment of the log in an address or a body: a sequence, or a time."""

import datetime
import re
from typing import Annotated

from msgspec import Meta

from contracts.errors import Invalid
from contracts.ids import END

PATTERN = (
    r"^(?:[1-9][0-9]{0,14}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2}))" + END
)
Moment = Annotated[str, Meta(pattern=PATTERN, max_length=40)] | Annotated[int, Meta(ge=1, lt=10**15)]
"""In a body: a sequence may be a number there."""
_MOMENT = re.compile(PATTERN)


def read_moment(text: str, what: str = "at") -> int | datetime.datetime:
    """Raises `Invalid` naming `what`."""
    if _MOMENT.match(text) is not None:
        try:
            return int(text) if text.isdigit() else datetime.datetime.fromisoformat(text)
        except ValueError:
            pass
    raise Invalid(f"{what}: {text[:40]!r} is neither a sequence of the log nor a time such as 2026-01-31T12:00:00Z")
