"""Checkpoints that were kept outside of a log, to be compared with those in it."""

import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from contracts.audits import Anchor
from contracts.chain import Listed, anchor, listed
from contracts.errors import Invalid
from contracts.events.audit import AuditCheckpoint


class Kept(NamedTuple):
    anchor: Anchor
    leaves: Callable[[], str] | None = None
    """What it lists of its sequences, where that was kept too: read only when it is needed. May raise `Invalid`."""


def of(checkpoint: AuditCheckpoint, said: Anchor) -> bool:
    """Whether it is the anchor of this very checkpoint."""
    return anchor(checkpoint, said.time) == said


def listed_by(kept: Kept) -> dict[int, Listed] | None:
    """What it tells of each sequence. None where that was not kept, or is not what was signed."""
    if kept.leaves is None:
        return None
    said = kept.anchor
    try:
        leaves = kept.leaves()
        if hashlib.sha256(leaves.encode()).hexdigest() != said.leaves_sha256:
            return None
        return listed(
            AuditCheckpoint(
                first_sequence=said.first_sequence,
                last_sequence=said.last_sequence,
                hash=said.hash,
                previous=said.previous,
                key=said.key,
                signature=said.signature,
                log=said.log,
                leaves=leaves,
                missing=said.missing,
            )
        )
    except Invalid:
        return None


def place_of(kept: Kept) -> tuple[int, int]:
    """In the order of the log."""
    return kept.anchor.last_sequence, kept.anchor.first_sequence


class Anchors:
    """Of any number of places, taken in the order of the log. Single ones may come in any order.

    Holds those that came by themselves, and one of each place: a place is read when it is its turn.
    """

    def __init__(self, kept: Iterable[Kept | Iterable[Kept]]) -> None:
        """A place gives what it has in the order of the log, whenever it is asked. What it raises is passed on."""
        single: list[Kept] = []
        self._places: list[Iterable[Kept]] = [single]
        for each in kept:
            if isinstance(each, Kept):
                single.append(each)
            else:
                self._places.append(each)
        single.sort(key=place_of)
        self._coming = self._all()
        self._next: Kept | None = None
        self._has_begun = False

    def _all(self) -> Iterator[Kept]:
        return heapq.merge(*self._places, key=place_of)

    def has_any(self) -> bool:
        return next(self._all(), None) is not None

    def has_of(self, log: str) -> bool:
        return any(kept.anchor.log == log for kept in self._all())

    def only_log(self) -> str:
        """Empty where they are of several, or there are none."""
        found = ""
        for kept in self._all():
            found = found or kept.anchor.log
            if kept.anchor.log != found:
                return ""
        return found

    def up_to(self, last: int, log: str) -> Iterator[Kept]:
        """Those of the log that end at or before a sequence, and were not taken yet."""
        while (found := self._peek()) is not None and found.anchor.last_sequence <= last:
            self._next = next(self._coming, None)
            if found.anchor.log == log:
                yield found

    def rest(self, log: str) -> Iterator[Kept]:
        while (found := self._peek()) is not None:
            self._next = next(self._coming, None)
            if found.anchor.log == log:
                yield found

    def _peek(self) -> Kept | None:
        """Not before somebody asks: a place may be slow."""
        if not self._has_begun:
            self._has_begun, self._next = True, next(self._coming, None)
        return self._next
