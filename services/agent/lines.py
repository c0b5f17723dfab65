"""Bytes in, lines out; what is too long for a line is told and not kept."""

from typing import NamedTuple

from contracts.errors import AgentFailed


class Line(NamedTuple):
    offset: int
    """Of its first byte in the stream."""
    data: bytes
    """Without the line break."""


class Lines:
    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0
        self.offset = 0
        """Where the line begins that is not over."""

    @property
    def rest(self) -> bytes:
        """What has come of a line that is not over."""
        return b"".join(self._parts)

    def feed(self, data: bytes) -> list[Line]:
        """Raises `AgentFailed` for a line that is longer than allowed."""
        *whole, rest = data.split(b"\n")
        found = [self._line(each) for each in whole]
        self._keep(rest)
        return found

    def _line(self, end: bytes) -> Line:
        self._keep(end)
        line = Line(self.offset, b"".join(self._parts))
        self.offset += self._size + 1
        self._parts, self._size = [], 0
        return line

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._longest:
            raise AgentFailed(
                f"the agent wrote a line of more than {self._longest} bytes: it does not speak its protocol",
                reason="line",
            )
        if data:
            self._parts.append(data)
