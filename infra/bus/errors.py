"""What the bus adds to `contracts/errors.py`."""

from contracts.errors import ClocheError, Invalid, Unavailable


class Denied(Invalid):
    """The server refuses this user this subject. Asking again will not help."""


class NobodyAnswers(Unavailable):
    """No stream, consumer or service listens on the subject."""


class LogGap(ClocheError):
    """A sequence is missing in the middle of the log: the store has lost something."""

    code = "LOG_GAP"


class ApiError(ClocheError):
    """The JetStream API refused a request. `number` is the server's own error code."""

    code = "JETSTREAM"

    def __init__(self, message: str, /, *, number: int, status: int) -> None:
        super().__init__(message, number=str(number), status=str(status))
        self.number = number
        self.status = status


NO_MESSAGE_FOUND = 10037
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
NOTHING_THERE = "wrong last sequence: 0"

TOO_FEW_SERVERS = 10005
NOT_CLUSTERED = 10074
