"""Maps that forget what is oldest: what comes in is endless, what is kept must not be."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def with_entry(kept: Mapping[str, T], key: str, value: T, limit: int) -> dict[str, T]:
    """As the newest."""
    grown = dict(kept)
    grown.pop(key, None)
    grown[key] = value
    while len(grown) > limit:
        del grown[next(iter(grown))]
    return grown


def without(kept: Mapping[str, T], key: str) -> Mapping[str, T]:
    if key not in kept:
        return kept
    shrunk = dict(kept)
    del shrunk[key]
    return shrunk
