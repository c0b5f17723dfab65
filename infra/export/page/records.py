"""What the page's script reads: arrays whose first element says what they are. Their other side is `page.js`."""

from collections.abc import Iterable
from typing import Any

import msgspec

Record = list[Any]
Part = dict[str, Any]
"""Of what is shown of a chosen event: `head`, `text`, and whether the text is a `diff`."""

TITLE = 300
PART = 64 * 1024
CUT = "…"
BLOCK_RECORDS = 200
BLOCK_BYTES = 512 * 1024


def clipped(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}{CUT}"


def part(text: str, *, head: str = "", diff: bool = False) -> Part:
    return {"head": clipped(head, TITLE), "text": clipped(text, PART), "diff": diff}


class Block:
    """Records on their way into the page, encoded one by one: few of them may be large."""

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        return len(self._encoded) >= BLOCK_RECORDS or self._size >= BLOCK_BYTES

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self._encoded.append(msgspec.json.encode(record))
            self._size += len(self._encoded[-1])

    def take(self) -> bytes:
        """As text that no HTML parser takes for anything but the content of a script element."""
        joined = b",".join(self._encoded).replace(b"<", b"\\u003c")
        self._encoded.clear()
        self._size = 0
        return b'<script type="application/json">[%b]</script>\n' % joined
