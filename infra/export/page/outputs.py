"""The beginning and the end of what a command wrote: enough to read and to search in a page."""

import codecs

from infra.terminal.plain import Plain

HEAD = 32 * 1024
TAIL = 32 * 1024


class Excerpt:
    """The words of bytes that come piece by piece, within bounds."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._plain = Plain()
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        text = self._plain.read(self._decoder.decode(data))
        room = HEAD - len(self._head)
        self._head += text[:room]
        tail = self._tail + text[max(room, 0) :]
        self._left_out += max(len(tail) - TAIL, 0)
        self._tail = tail[-TAIL:]

    @property
    def text(self) -> str:
        middle = f"\n… {self._left_out} characters are left out …\n" if self._left_out else ""
        return f"{self._head}{middle}{self._tail}"
