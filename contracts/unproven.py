"""Leaves of a log that no checkpoint has covered yet."""

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from contracts.chain import missing_leaf

WHOLE = hashlib.sha256().digest_size
_COMPACT_AT = 50_000


class Unproven:
    """In order of sequence, with or without holes: 40 bytes for each."""

    def __init__(self) -> None:
        self._sequences = array("Q")
        self._leaves = bytearray()
        self._start = 0
        """What lies before was dropped: moving everything for every checkpoint would cost more than hashing."""

    def add(self, sequence: int, leaf: bytes) -> None:
        """After all that were added before."""
        self._sequences.append(sequence)
        self._leaves += leaf

    def _span(self, first: int, last: int) -> tuple[int, int]:
        low = bisect_left(self._sequences, first, self._start)
        return low, bisect_right(self._sequences, last, low)

    def between(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Sequences and their leaves."""
        for at in range(*self._span(first, last)):
            yield self._sequences[at], bytes(self._leaves[at * WHOLE : (at + 1) * WHOLE])

    def count(self, first: int, last: int) -> int:
        low, high = self._span(first, last)
        return high - low

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges of what is not there."""
        low, high = self._span(first, last)
        expected = first
        for at in range(low, high):
            if (sequence := self._sequences[at]) != expected:
                yield expected, sequence - 1
            expected = sequence + 1
        if expected <= last:
            yield expected, last

    def hash(self, previous: str, first: int, last: int, missing: Sequence[tuple[int, int]]) -> str | None:
        """As a checkpoint of this range would have it. None if there is anything more or less than it says.

        What it says may be from anybody: no range of it need be one.
        """
        try:
            hashed = hashlib.sha256(bytes.fromhex(previous))
        except ValueError:
            return None
        at = first
        for lost, found in missing:
            is_next = 1 <= at <= lost <= found <= last
            if not is_next or self.count(lost, found) or not self._hash_all(hashed, at, lost - 1):
                return None
            hashed.update(missing_leaf(lost, found))
            at = found + 1
        return hashed.hexdigest() if self._hash_all(hashed, at, last) else None

    def _hash_all(self, hashed: "hashlib._Hash", first: int, last: int) -> bool:
        """False if not every one of them is there."""
        low, high = self._span(first, last)
        with memoryview(self._leaves) as leaves:
            hashed.update(leaves[low * WHOLE : high * WHOLE])
        return high - low == last - first + 1

    def drop(self, last: int) -> None:
        """Everything up to this sequence."""
        self._start = bisect_right(self._sequences, last, self._start)
        if self._start > _COMPACT_AT and self._start * 2 > len(self._sequences):
            del self._sequences[: self._start]
            del self._leaves[: self._start * WHOLE]
            self._start = 0
