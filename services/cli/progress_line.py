"""How far something has come, in a line of the terminal that makes room for everything else."""

import sys
import time
from types import TracebackType
from typing import Self

EVERY_S = 0.2
BAR = 20
ERASED = "\r\033[K"


class ProgressLine:
    """On standard error, and only where somebody looks. Call `clear` before anything else is printed."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._is_seen = sys.stderr.isatty()
        self._is_drawn = False
        self._next_s = time.monotonic() + EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.clear()

    def at(self, done: int, whole: int) -> None:
        if not self._is_seen or (now := time.monotonic()) < self._next_s:
            return
        self._next_s = now + EVERY_S
        self._is_drawn = True
        percent = 100 * done // max(whole, 1)
        bar = "#" * min(BAR * done // max(whole, 1), BAR)
        text = f"{self._words} [{bar:-<{BAR}}] {done:,} of {whole:,} ({percent} %)"
        print(f"{ERASED}{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            print(ERASED, end="", file=sys.stderr, flush=True)
