"""A value that is not to be seen in what passes, however it is cut into pieces."""

from infra.secret_spellings import Spelling, spellings


class Mask:
    """Replaces the value, in whatever spelling is known of it, by a mask of the same length."""

    def __init__(self, value: str) -> None:
        # One that is too short to have spellings must not be seen either.
        itself = Spelling(value.encode(), b"*" * len(value.encode()))
        self._hidden = spellings((value,)) or (itself,)
        self._tail = b""

    def whole(self, data: bytes) -> bytes:
        for each in self._hidden:
            if each.found in data:
                data = data.replace(each.found, each.mask)
        return data

    def feed(self, data: bytes) -> bytes:
        """As much as can be let go: all but an end that may be the beginning of the value."""
        data = self.whole(self._tail + data if self._tail else data)
        kept = max(_begun(data, each.found) for each in self._hidden)
        self._tail = data[len(data) - kept :]
        return data[: len(data) - kept]

    def end(self) -> bytes:
        tail, self._tail = self._tail, b""
        return tail


def _begun(data: bytes, hidden: bytes) -> int:
    """The length of the longest end of `data` that the value begins with."""
    end = data[-(len(hidden) - 1) :] if len(hidden) > 1 else b""
    at = end.find(hidden[:1])
    while at >= 0:
        if hidden.startswith(end[at:]):
            return len(end) - at
        at = end.find(hidden[:1], at + 1)
    return 0
