"""Which troubles with a workspace are news."""

import time
from collections.abc import Collection

from contracts.errors import ClocheError

MOST = 200
"""Troubles of one workspace that are told at a time, beside those with all of it."""
AGAIN_S = 3600.0
"""What comes and goes is told once in this time."""

Trouble = OSError | ClocheError


class Complaints:
    """A trouble is told once, and again only where it was over meanwhile."""

    def __init__(self, again_s: float = AGAIN_S) -> None:
        self._again_s = again_s
        self._told: dict[tuple[bytes, int | str], float] = {}
        """When, by the monotonic clock."""
        self._over: set[tuple[bytes, int | str]] = set()

    def is_news(self, path: bytes, trouble: Trouble) -> bool:
        """Says so once: it counts as told from then on."""
        key = (path, _kind(trouble))
        if key in self._told and not self._is_forgotten(key):
            return False
        if path and key not in self._told and len(self._told) >= MOST and not self._has_room():
            return False
        self._told[key] = time.monotonic()
        self._over.discard(key)
        return True

    def are_well(self, paths: Collection[bytes], but: Collection[Trouble] = ()) -> None:
        """All troubles with these paths are over, except for those."""
        still = {_kind(trouble) for trouble in but}
        self._over |= {(path, kind) for path, kind in self._told if path in paths and kind not in still}

    def _is_forgotten(self, key: tuple[bytes, int | str]) -> bool:
        return key in self._over and time.monotonic() - self._told[key] >= self._again_s

    def _has_room(self) -> bool:
        for key in [key for key in self._told if self._is_forgotten(key)]:
            del self._told[key]
            self._over.discard(key)
        return len(self._told) < MOST


def _kind(trouble: Trouble) -> int | str:
    return (trouble.errno or 0) if isinstance(trouble, OSError) else trouble.message
