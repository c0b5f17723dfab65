"""Moments as people type them: a sequence of the log, or a time."""

import datetime
import re

from contracts.errors import Invalid
from infra import clock
from infra.moments import Moment
from services.cli.values import duration_ms

MOST_DIGITS = 18
_OF_TODAY = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?\Z")


def moment(text: str, option: str) -> Moment:
    """Raises `Invalid`. A time without a zone is meant as the clock on this machine shows it."""
    if text.isascii() and text.isdigit():
        if len(text) > MOST_DIGITS or int(text) < 1:
            raise Invalid(f"{option} {text[:30]}: no sequence; they begin with 1")
        return int(text)
    try:
        return _time(text)
    except (ValueError, OverflowError, Invalid):
        times = "a time such as 2026-01-31T12:30:00, 12:30:00 of today, or -5m"
        raise Invalid(f"{option} {text!r} is neither a sequence (see `cloche show`) nor {times}") from None


def check_range(first: int, last: int, end: int) -> None:
    """`end` is that of the log. Raises `Invalid` where nothing can be between `--from` and `--to`."""
    if first > end:
        raise Invalid(f"nothing is on record from there on: the log ends at sequence {end}")
    if first > last:
        raise Invalid(f"nothing is from sequence {first} to {last}: --from comes after --to")


def _time(text: str) -> datetime.datetime:
    now = clock.now().astimezone()
    if text.startswith("-"):
        return now - datetime.timedelta(milliseconds=duration_ms(text[1:]))
    if _OF_TODAY.match(text):
        return datetime.datetime.combine(now.date(), datetime.time.fromisoformat(text)).astimezone()
    return datetime.datetime.fromisoformat(text).astimezone()
