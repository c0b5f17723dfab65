"""Commands in a sandbox over HTTP. What is to be run is a `RunCommand`, as on the bus."""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.commands.command import Columns, Rows, Scope
from contracts.commands.sandbox import Reason
from contracts.errors import Failure
from contracts.events.command import TerminalSize, Totals
from contracts.message import Order, Time
from contracts.payload import Encoding


class Input(Order, frozen=True, kw_only=True):
    data: Annotated[str, Meta(max_length=700_000)] = ""
    encoding: Encoding = Encoding.UTF8
    offset: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    """Where in stdin these bytes belong: makes a repeated input harmless. Absent = at the end."""
    eof: bool = False
    """Nothing follows."""


class Signal(Order, frozen=True, kw_only=True):
    signal: Annotated[int, Meta(ge=1, le=64)] = 15
    scope: Scope = Scope.TREE
    cancel: bool = False
    """The command is to end: it is recorded as `cancelled`, with its real exit status."""
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000
    """With `cancel`: SIGKILL follows after this long."""
    reason: Reason = "asked"


class Resize(Order, frozen=True, kw_only=True):
    rows: Rows
    cols: Columns


class CommandAccepted(Struct, frozen=True, kw_only=True):
    """The order is durable. What becomes of it is told in the log."""

    sandbox: str
    command: str
    exec: str
    """The same as `command`: a command's execution is named by the order for it."""


class CommandDetail(Struct, frozen=True, kw_only=True):
    """What the log says of a command."""

    sandbox: str
    exec: str
    argv: tuple[str, ...] = ()
    cwd: str = ""
    pty: TerminalSize | None = None
    asker: str = ""
    started_at: Time | None = None
    """Absent = it never ran."""
    outcome: str | None = None
    """completed, timed_out, cancelled, rejected, lost, or given_up for an order that nobody could obey. Absent = it
    has not ended."""
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    duration_ms: float | None = None
    totals: Totals | None = None
    """Bytes of each stream, once it has ended."""
    failure: Failure | None = None
    """Why it never ran."""
    first_sequence: int
    last_sequence: int
    """The newest event that this tells of."""


class CommandResult(CommandDetail, frozen=True, kw_only=True):
    """A command that has ended, with what it wrote."""

    stdout: str = ""
    """With a terminal: all that it showed."""
    stdout_encoding: Encoding = Encoding.UTF8
    stderr: str = ""
    stderr_encoding: Encoding = Encoding.UTF8
    truncated: bool = False
    """It wrote more than is answered at once: `…/output` has all of it."""
