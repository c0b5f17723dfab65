"""Summaries of many measurements of one thing."""

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The nearest rank, so always something that was measured. Raises `ValueError` for no values."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def median(values: Sequence[float]) -> float:
    """Raises `ValueError` for no values."""
    if not values:
        raise ValueError("nothing was measured")
    return statistics.median(values)
