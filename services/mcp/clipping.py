"""Output that may be of any length, in bounded memory: how it begins, and how it ends."""

from typing import NamedTuple

HEAD = 8 * 1024
TAIL = 24 * 1024


class Clipped(NamedTuple):
    text: str
    size: int
    """Bytes of all of it."""
    is_cut: bool


class Clipping:
    """Keeps the first `head` and the last `tail` bytes of what it is given."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._most_head = head
        self._most_tail = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = self._most_head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._most_tail:
            del self._tail[: -self._most_tail]

    def clipped(self) -> Clipped:
        """Bytes that are no UTF-8 are replaced."""
        left_out = self.size - len(self._head) - len(self._tail)
        if not left_out:
            return Clipped((self._head + self._tail).decode("utf-8", "replace"), self.size, False)
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        return Clipped(f"{head}\n[… {left_out} bytes left out …]\n{tail}", self.size, True)
