"""How many may do at a time what takes long and costs much."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from contracts.access import Principal
from contracts.errors import TooManyRequests

LATER_S = "5"


class Places:
    """So many in all, and never all of them for one name."""

    def __init__(self, what: str, most: int, most_of_one: int) -> None:
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()

    def check(self, principal: Principal) -> None:
        """Raises `TooManyRequests`."""
        if self._taken[principal.subject] >= self._most_of_one or self._taken.total() >= self._most:
            words = f"too many {self._what} at a time: {self._most} in all, {self._most_of_one} of one name"
            raise TooManyRequests(words, retry_after_s=LATER_S)

    @contextmanager
    def taken(self, principal: Principal) -> Iterator[None]:
        """Raises `TooManyRequests`."""
        self.check(principal)
        self._taken[principal.subject] += 1
        try:
            yield
        finally:
            self._taken[principal.subject] -= 1
            # Names are without end.
            self._taken += Counter()
