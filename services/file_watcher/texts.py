"""The contents that diffs are most likely to be made against."""

from collections import OrderedDict

MAX_BYTES = 16 * 1024 * 1024


class Texts:
    """The last small contents that were read, by sha256."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, sha256: str, data: bytes) -> None:
        if sha256 in self._kept:
            self._kept.move_to_end(sha256)
            return
        self._kept[sha256] = data
        self._bytes += len(data)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    def get(self, sha256: str) -> bytes | None:
        return self._kept.get(sha256)
