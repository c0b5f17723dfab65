"""What one event of the log adds to what is played."""

from typing import NamedTuple

from contracts import codec
from contracts.errors import Invalid
from contracts.tape import Frame, Tape
from infra.bus.page import Entry


class Spot(NamedTuple):
    """An event, and where it lies on the shortened time line."""

    sequence: int
    place: float


def frames_of(tape: Tape, entry: Entry) -> list[Frame]:
    """Nothing for an event that cannot be read."""
    try:
        head = codec.decode_head(entry.data)
        return tape.feed(entry.seq, head, codec.decode_fact(head))
    except Invalid:
        return []
