"""What the log is about to forget by its limits."""

from infra.bus.reader import Bounds

WORN = 1 / 4
"""What is in so much of the log, at its old end, is told anew by whoever needs it before it is forgotten."""


def is_worn(sequence: int, bounds: Bounds) -> bool:
    """Only a log that has begun to forget wears."""
    return bounds.first > 1 and sequence < bounds.first + (bounds.last - bounds.first) * WORN
