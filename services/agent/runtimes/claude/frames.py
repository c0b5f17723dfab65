"""One line of the CLI's output: a JSON object with a type. Everything in it may be a lie."""

import json
from typing import Any

from contracts.errors import Invalid

Frame = dict[str, Any]
LONGEST_NAME = 200


def parse(line: bytes) -> Frame | None:
    """None for a blank line. Raises `Invalid` for what is no frame."""
    if not line.strip():
        return None
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Invalid("no JSON") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise Invalid("no JSON object with a type")
    return frame


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
    """A whole number that is not negative, and not absurd."""
    found = frame.get(field)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 53 else 0


def amount(frame: Frame, field: str) -> float:
    found = frame.get(field)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e15:
        return 0.0
    return float(found)
