"""What the closing frames of a record say. JSON in the payload of the frame."""

import msgspec
from msgspec import Struct


class Totals(Struct, frozen=True, kw_only=True):
    """Bytes on the record, per stream."""

    stdin: int = 0
    stdout: int = 0
    stderr: int = 0
    pty: int = 0


class Rusage(Struct, frozen=True, kw_only=True):
    user_s: float = 0
    sys_s: float = 0
    max_rss_kb: int = 0


class Exit(Struct, frozen=True, kw_only=True):
    """The wait status of the main process: `code`, or the `signal` that ended it."""

    code: int | None = None
    signal: int | None = None
    core: bool = False
    duration_s: float = 0
    rusage: Rusage | None = None
    totals: Totals
    notes: tuple[str, ...] = ()
    """Why signals were sent to it, in order."""


class Lost(Struct, frozen=True, kw_only=True):
    """`sandbox_gone`, `sandbox_silent`, `connection_lost`, `keeper_died`, `keeper_failed` or `keeper_stopped`.

    Nobody knows how the command ended.
    """

    cause: str
    totals: Totals


class Failed(Struct, frozen=True, kw_only=True):
    """`NOT_FOUND`, `NOT_EXECUTABLE`, `BAD_CWD`, `FAILED`, `SANDBOX_GONE` or `WRONG_INSTANCE`."""

    code: str
    message: str


class Resize(Struct, frozen=True, kw_only=True):
    rows: int
    cols: int


def encode(outcome: Exit | Lost | Failed | Resize) -> bytes:
    return msgspec.json.encode(outcome)
