"""What the log lacks, told to whoever reads it here."""

import sys

from infra.bus.reader import Gap
from services.cli.passthrough import STDOUT, write_all


def tell_gap(gap: Gap) -> None:
    """On stderr: stdout is for what is there."""
    one = gap.first == gap.last
    which = f"sequence {gap.first} is" if one else f"sequences {gap.first} to {gap.last} are"
    lost = "it" if one else "them"
    print(f"cloche: {which} missing from the log: the store has lost {lost}. See `cloche audit`.", file=sys.stderr)


def tell_gap_in_json(gap: Gap) -> None:
    """And in its place among the objects, one a line."""
    tell_gap(gap)
    write_all(STDOUT, b'{"gap":{"first":%d,"last":%d}}\n' % gap)
