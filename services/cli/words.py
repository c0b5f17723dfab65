"""What is said to a person and must not stand in a program's way: always on stderr."""

import sys
from collections.abc import Callable


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def progress() -> Callable[[str], None] | None:
    """Says what is being done while somebody waits; None where nobody looks."""
    return say if sys.stderr.isatty() else None
