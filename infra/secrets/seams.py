"""A secret that is cut in two by the border between two chunks of a stream."""

from infra.secrets.redaction import Redactor
from infra.secrets.spellings import Spelling

ENOUGH = 8
"""Characters of a secret at the end of a chunk that are masked before the rest of it is seen."""


class StreamMask:
    """Masks, in each chunk, its part of what crosses the border to its neighbours. The rest is not its business.

    No chunk is held back for the next one: up to `ENOUGH` - 1 characters of the beginning of a secret can remain.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = b""

    def mask(self, raw: bytes) -> bytes:
        """Of the same length. Chunks come in their order."""
        known = self._redactor.spellings
        if not known:
            return raw
        reach = len(known[0].found) - 1
        before = self._before
        self._before = (before + raw)[-reach:]
        return self._end(self._beginning(before, raw, reach), known)

    def _beginning(self, before: bytes, raw: bytes, reach: int) -> bytes:
        border = before + raw[:reach]
        masked = self._redactor.mask(border)
        return raw if masked is border else masked[len(before) :] + raw[reach:]

    def _end(self, raw: bytes, known: tuple[Spelling, ...]) -> bytes:
        for each in known:
            count = _begun(each.found, self._before)
            if count:
                here = min(count, len(raw))
                return raw[: len(raw) - here] + each.mask[count - here : count]
        return raw


def _begun(spelling: bytes, end: bytes) -> int:
    """How many of its first characters stand at the end; 0 for too few."""
    if spelling[:ENOUGH] not in end:
        return 0
    return next((count for count in range(len(spelling) - 1, ENOUGH - 1, -1) if end.endswith(spelling[:count])), 0)
