"""What the log has lost, as answers tell it."""

from msgspec import Struct


class Lack(Struct, frozen=True, kw_only=True):
    """Sequences that are not there, from and to. Nobody can say whose events they were."""

    first_sequence: int
    last_sequence: int
