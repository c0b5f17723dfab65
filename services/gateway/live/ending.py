"""Why a connection ends."""

TOKEN_EXPIRED = 4001
TAKES_NOTHING = 4008
FAILED = 1011


class Ending(Exception):
    """Whoever raises it wants the connection closed."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Left(Exception):
    """The client is gone."""


class TakesNothing(Exception):
    """The client does not read what it is sent."""
