"""How much of everything a run measures."""

from msgspec import Struct


class Sizes(Struct, frozen=True, kw_only=True):
    rounds: int
    """How often each benchmark goes back and forth between Cloche and the bare alternative."""
    round_trips: int
    """Commands, over all rounds."""
    output_bytes: int
    """Of one command, each round."""
    lines: int
    """Whose latency is measured, over all rounds."""
    command_lines: int
    """Runs of each command line."""
    sandboxes: int
    """In the large log: a multiple of 200."""
    events: int
    """Of each sandbox in the large log."""


FULL = Sizes(
    rounds=5,
    round_trips=300,
    output_bytes=512 * 1024 * 1024,
    lines=240,
    command_lines=7,
    sandboxes=1000,
    events=1000,
)
QUICK = Sizes(
    rounds=2,
    round_trips=40,
    output_bytes=16 * 1024 * 1024,
    lines=40,
    command_lines=2,
    sandboxes=200,
    events=100,
)
