"""What goes over `cloche.vitals`: signs of life, which may be lost and are never part of the truth."""

from msgspec import Struct

PROGRESS = "progress"


class Progress(Struct, frozen=True, kw_only=True):
    """What is being done about a sandbox that somebody waits for."""

    line: str
