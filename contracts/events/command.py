"""Facts about a command, written by the executor.

Every command ends in exactly one of completed, timed_out, cancelled, rejected, lost.
"""

from enum import StrEnum

from msgspec import Struct

from contracts.commands.command import Asker
from contracts.errors import Failure
from contracts.message import Fact
from contracts.payload import Encoding


class Stream(StrEnum):
    STDIN = "stdin"
    STDOUT = "stdout"
    STDERR = "stderr"
    PTY = "pty"


class Totals(Struct, frozen=True, kw_only=True):
    """Bytes of each stream: what a reader must have seen to have seen everything."""

    stdin: int = 0
    stdout: int = 0
    stderr: int = 0
    pty: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    user_s: float = 0
    system_s: float = 0
    max_rss_kb: int = 0


class Exit(Struct, frozen=True, kw_only=True):
    """What the kernel said: an exit code or a signal, never both, never a guess."""

    code: int | None = None
    signal: int | None = None
    core: bool = False


class TerminalSize(Struct, frozen=True, kw_only=True):
    rows: int
    cols: int


class CommandStarted(Fact, frozen=True, kw_only=True):
    exec: str
    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...] = ()
    """Names of the variables set for this command. Values are not on the record."""
    pty: TerminalSize | None = None
    stdin: bool = False
    timeout_ms: int | None = None
    asker: Asker = Asker.USER
    by: str = ""
    """Who asked for it: the `source` of the order, such as `gateway/alice`."""


class CommandInput(Fact, frozen=True, kw_only=True):
    exec: str
    offset: int
    size: int
    data: str
    encoding: Encoding
    eof: bool = False
    resize: TerminalSize | None = None
    """The terminal's new size, in order with what was typed; such an input has no bytes."""


class CommandOutput(Fact, frozen=True, kw_only=True):
    exec: str
    stream: Stream
    offset: int
    """Position of the first byte in its stream. Counts bytes, whatever the encoding."""
    size: int
    data: str
    encoding: Encoding
    after_exit: bool = False
    """Written by a background process after its command had ended."""


class CommandCompleted(Fact, frozen=True, kw_only=True):
    exec: str
    exit: Exit
    duration_ms: float
    totals: Totals
    usage: Usage = Usage()
    cause: str = "exited"


class CommandTimedOut(Fact, frozen=True, kw_only=True):
    exec: str
    limit_ms: int
    exit: Exit | None
    duration_ms: float
    totals: Totals
    usage: Usage = Usage()
    cause: str = "time limit"


class CommandCancelled(Fact, frozen=True, kw_only=True):
    exec: str
    exit: Exit | None
    duration_ms: float
    totals: Totals
    cause: str
    usage: Usage = Usage()


class CommandRejected(Fact, frozen=True, kw_only=True):
    """It never ran."""

    exec: str
    failure: Failure
    cause: str


class CommandLost(Fact, frozen=True, kw_only=True):
    """It ran, or may have run; how it ended cannot be known."""

    exec: str
    cause: str
    detail: str
    totals: Totals
    """Bytes known to have been written. There may have been more."""
