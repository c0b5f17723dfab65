"""Packages that others import only because they are installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Inside, a package that was not imported yet is not there."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # as the import system has it
    try:
        yield
    finally:
        del sys.modules[name]
