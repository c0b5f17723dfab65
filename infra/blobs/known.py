"""Which blobs are surely stored, remembered for a while."""

import time
from collections import OrderedDict
from collections.abc import Iterable

ENTRIES = 50_000


class Known:
    """Names that were seen in the store no longer ago than `seconds`. The oldest of more than `ENTRIES` are dropped."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: OrderedDict[str, float] = OrderedDict()

    def add(self, name: str) -> None:
        self._seen[name] = time.monotonic()
        self._seen.move_to_end(name)
        if len(self._seen) > ENTRIES:
            self._seen.popitem(last=False)

    def __contains__(self, name: str) -> bool:
        seen = self._seen.get(name)
        return seen is not None and time.monotonic() - seen < self._seconds

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            self._seen.pop(name, None)
