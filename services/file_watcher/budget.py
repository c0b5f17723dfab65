"""How much of what happens in a workspace is kept: whoever writes for ever must not fill the store."""

import time

LONGEST_DEBT_S = 60.0
"""However much was told at once, the next look is no later than this."""


class Budget:
    """A bucket of bytes that fills up slowly. More may be spent than it has: then there is nothing for a while."""

    def __init__(self, burst: int, per_s: int) -> None:
        self._burst = burst
        self._per_s = per_s
        self._bytes = float(burst)
        self._at = time.monotonic()

    def left(self) -> float:
        now = time.monotonic()
        self._bytes = min(self._burst, self._bytes + (now - self._at) * self._per_s)
        self._at = now
        return self._bytes

    def spend(self, size: int) -> None:
        self._bytes = max(self.left() - size, -LONGEST_DEBT_S * self._per_s)

    def is_spent(self) -> bool:
        return self.left() < 0

    def has_recovered(self) -> bool:
        """Enough is left that the next burst is another story."""
        return self.left() >= self._burst / 2

    def need(self, size: int) -> int:
        """What must be left for something of this size: of what is larger than any burst, all of it."""
        return min(size, self._burst)

    def when(self, need: float) -> float:
        """When so much will be left if nothing is spent meanwhile, by the monotonic clock."""
        return time.monotonic() + max(0.0, need - self.left()) / self._per_s
