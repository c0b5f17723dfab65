"""How often something may happen."""

import time


class Bucket:
    """Fills at a steady rate up to its size; each time takes one."""

    def __init__(self, per_s: float, size: int) -> None:
        self._per_s = per_s
        self._size = float(size)
        self._level = self._size
        self._at = time.monotonic()

    def take(self) -> bool:
        now = time.monotonic()
        self._level = min(self._size, self._level + (now - self._at) * self._per_s)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True

    @property
    def wait_s(self) -> float:
        """From the last take until there is one to take."""
        return max(0.0, (1 - self._level) / self._per_s)
