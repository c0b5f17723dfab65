"""One line of the CLI's output: a JSON object with a type. Everything in it may be a lie."""

import asyncio
import json
from typing import Any

from contracts.errors import Invalid

Frame = dict[str, Any]
LONGEST_NAME = 200
SMALL = 256 * 1024
"""Bytes of a frame that are read in a few milliseconds, whatever they are."""
MOST_VALUES = 200_000
"""In a larger one. There are texts and pictures of megabytes in frames, but not many of them."""
MOST_TOKENS = 10**12
MOST_AMOUNT = 10**9
_STRUCTURE = (b"{", b"[", b",")
_QUOTE, _BACKSLASH = b'"', ord("\\")


async def read(line: bytes) -> Frame | None:
    """As `parse`; others go on meanwhile, where it takes a while."""
    return parse(line) if len(line) <= SMALL else await asyncio.to_thread(parse, line)


def parse(line: bytes) -> Frame | None:
    """None for a blank line. Raises `Invalid` for what is no frame."""
    if not line.strip():
        return None
    if len(line) > SMALL and _is_dense(line):
        raise Invalid(f"more than {MOST_VALUES} values")
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid("no JSON") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise Invalid("no JSON object with a type")
    return frame


def _is_dense(line: bytes) -> bool:
    """Reading JSON lets nobody else go on, so what would take long is told by its looks."""
    if sum(line.count(each) for each in _STRUCTURE) <= MOST_VALUES:
        return False
    values, at = 0, 0
    while at < len(line) and values <= MOST_VALUES:
        opening = line.find(_QUOTE, at)
        end = opening if opening >= 0 else len(line)
        values += sum(line.count(each, at, end) for each in _STRUCTURE)
        at = _after_string(line, end + 1)
    return values > MOST_VALUES


def _after_string(line: bytes, at: int) -> int:
    """Where a string ends, of which `at` is within."""
    while (end := line.find(_QUOTE, at)) >= 0:
        slashes = end
        while slashes > at and line[slashes - 1] == _BACKSLASH:
            slashes -= 1
        if (end - slashes) % 2 == 0:
            return end + 1
        at = end + 1
    return len(line)


def text(frame: Frame, field: str) -> str:
    """Empty where it is missing, or something else."""
    found = frame.get(field)
    return found if isinstance(found, str) else ""


def name(frame: Frame, field: str) -> str:
    """The id of something; empty also where it is too long for one."""
    found = text(frame, field)
    return found if len(found) <= LONGEST_NAME else ""


def part(frame: Frame, field: str) -> Frame:
    found = frame.get(field)
    return found if isinstance(found, dict) else {}


def parts(frame: Frame, field: str) -> list[Frame]:
    """The objects of a list."""
    found = frame.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def count(frame: Frame, field: str) -> int:
    """A whole number that is not negative; of one that is absurd, as much as can be believed."""
    found = frame.get(field)
    return min(found, MOST_TOKENS) if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def amount(frame: Frame, field: str) -> float:
    """Finite, not negative, and not absurd either."""
    found = frame.get(field)
    if isinstance(found, bool) or not isinstance(found, int | float) or not found > 0:
        return 0.0
    return float(min(found, MOST_AMOUNT))
