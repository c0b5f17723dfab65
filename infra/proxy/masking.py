"""A value that is not to be seen in what passes, however it is cut into pieces."""

from infra.secrets.spellings import Spelling, spellings


class Mask:
    """Replaces the value, in whatever spelling is known of it, by a mask of the same length.

    How much is held back never depends on what it is: one who has guesses echoed cannot tell a beginning of the value
    from anything else by when it arrives. Its limit: what was let go cannot be masked any more, so of a value that
    comes with pauses in it only the part after the last pause is hidden.
    """

    def __init__(self, value: str) -> None:
        # One that is too short to have spellings must not be seen either.
        itself = Spelling(value.encode(), b"*" * len(value.encode()))
        # Where two overlap, the mask of the longer one stays: it is written last.
        self._hidden = (itself, *reversed(spellings((value,))))
        self._reach = max(len(each.found) for each in self._hidden) - 1
        self._gone = b""
        """The end of what was let go, as it came: the value may have begun in it."""
        self._held = b""

    def whole(self, data: bytes) -> bytes:
        """With every occurrence masked, also of those that overlap."""
        masked: bytearray | None = None
        for each in self._hidden:
            at = data.find(each.found)
            while at >= 0:
                masked = bytearray(data) if masked is None else masked
                masked[at : at + len(each.found)] = each.mask
                at = data.find(each.found, at + 1)
        return data if masked is None else bytes(masked)

    def feed(self, data: bytes) -> bytes:
        """As much as can be let go: all but an end in which the value may have begun."""
        return self._let_go(data, self._reach)

    def end(self) -> bytes:
        """What was held back; more may follow."""
        return self._let_go(b"", 0)

    def _let_go(self, data: bytes, reach: int) -> bytes:
        seen = self._gone + self._held + data
        begin, end = len(self._gone), max(len(self._gone), len(seen) - reach)
        self._gone, self._held = seen[max(0, end - self._reach) : end], seen[end:]
        return self.whole(seen)[begin:end]
