"""What the log lacks, told to whoever reads it here."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from infra.bus import gaps
from infra.bus.reader import Gap
from services.cli.passthrough import STDOUT, write_all


def tell_gap(gap: Gap) -> None:
    """On stderr: stdout is for what is there."""
    one = gap.first == gap.last
    which = f"sequence {gap.first} is" if one else f"sequences {gap.first} to {gap.last} are"
    lost = "it" if one else "them"
    print(f"cloche: {which} missing from the log: the store has lost {lost}. See `cloche audit`.", file=sys.stderr)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def told_at_the_end() -> Iterator[None]:
    """On stderr, what readers came upon that told nobody in its place: a player or a pager has the terminal before."""
    kept = _Kept()
    gaps.logger.addHandler(kept)
    try:
        yield
    finally:
        gaps.logger.removeHandler(kept)
        for words in kept.said:
            print(f"cloche: {words}", file=sys.stderr)


def tell_gap_in_json(gap: Gap) -> None:
    """And in its place among the objects, one a line."""
    tell_gap(gap)
    write_all(STDOUT, b'{"gap":{"first":%d,"last":%d}}\n' % gap)
