"""What is written all the time is stored now and then, not at each look."""

import time
from collections.abc import Mapping

from contracts.events.file import EntryKind
from contracts.sight import Seen
from infra.watching.contents import SMALL_BYTES
from services.file_watcher.budget import Budget

BYTES_PER_S = 8 * 1024 * 1024
LONGEST_S = 60.0
BREATH_S = 1.0


class Postponed:
    def __init__(self) -> None:
        self._not_before: dict[bytes, float] = {}
        self._waiting: set[bytes] = set()

    def sort_out(self, found: dict[bytes, Seen]) -> set[bytes]:
        """Those that were stored a moment ago; they wait for their turn."""
        now = time.monotonic()
        self._not_before = {path: at for path, at in self._not_before.items() if at > now}
        early = {path for path, seen in found.items() if path in self._not_before and _is_large(seen)}
        self._waiting |= early
        return early

    def stored(self, path: bytes, size: int) -> None:
        self._waiting.discard(path)
        self._not_before[path] = time.monotonic() + min(size / BYTES_PER_S, LONGEST_S)

    def wait(self, sizes: Mapping[bytes, int], budget: Budget) -> None:
        """Each until there is enough for it and for all that are smaller."""
        need = 0
        for path in sorted(sizes, key=lambda path: sizes[path]):
            need += budget.need(sizes[path])
            self._waiting.add(path)
            self._not_before[path] = max(budget.when(need), time.monotonic() + BREATH_S)

    def due(self) -> float | None:
        """When the next of those that wait has its turn."""
        return min((self._not_before.get(path, 0.0) for path in self._waiting), default=None)

    def take(self, *, all_of_them: bool) -> set[bytes]:
        """Those whose turn it is."""
        now = time.monotonic()
        ready = {path for path in self._waiting if all_of_them or self._not_before.get(path, 0.0) <= now}
        self._waiting -= ready
        for path in ready:
            self._not_before.pop(path, None)
        return ready


def _is_large(seen: Seen) -> bool:
    """What has become of the path may be something else entirely."""
    return seen.kind == EntryKind.FILE and seen.size > SMALL_BYTES
