"""Checkpoints that were kept outside of a log, to be compared with those in it."""

import hashlib
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


class Anchors:
    """Of any number of places, in any order; taken in the order of the log."""

    def __init__(self, kept: Iterable[Kept]) -> None:
        self._kept = sorted(kept, key=lambda each: (each.anchor.last_sequence, each.anchor.first_sequence))
        self._at = 0

    def logs(self) -> set[str]:
        return {each.anchor.log for each in self._kept}

    def up_to(self, last: int, log: str) -> Iterator[Kept]:
        """Those of the log that end at or before a sequence, and were not taken yet."""
        while self._at < len(self._kept) and self._kept[self._at].anchor.last_sequence <= last:
            self._at += 1
            if (found := self._kept[self._at - 1]).anchor.log == log:
                yield found

    def rest(self, log: str) -> Iterator[Kept]:
        for each in self._kept[self._at :]:
            if each.anchor.log == log:
                yield each
        self._at = len(self._kept)
