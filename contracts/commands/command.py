"""Orders about a command in a sandbox, taken by the executor."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from contracts.commands.sandbox import Reason
from contracts.ids import END, ExecId
from contracts.message import Order
from contracts.payload import Encoding
from contracts.spec import EnvName, EnvValue, InsidePath

Argument = Annotated[str, Meta(max_length=131_072, pattern=r"^[^\x00]*" + END)]
Rows = Annotated[int, Meta(ge=1, le=1000)]
Columns = Annotated[int, Meta(ge=1, le=1000)]


class PtySize(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rows: Rows = 24
    cols: Columns = 80


class Asker(StrEnum):
    AGENT = "agent"
    USER = "user"
    SYSTEM = "system"


class Scope(StrEnum):
    TREE = "tree"
    MAIN = "main"
    REST = "rest"
    """The tree without the command's own process: what it has started stops, and it goes on."""


class RunCommand(Order, frozen=True, kw_only=True):
    """Exactly one of `argv` and `shell`. The exec's id is the id of this command."""

    argv: Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=10_000)] | None = None
    shell: Annotated[Argument, Meta(min_length=1)] | None = None
    """Run by `/bin/sh -c`."""
    cwd: InsidePath | None = None
    """Absent = the workspace."""
    env: Annotated[dict[EnvName, EnvValue], Meta(max_length=500)] = {}
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | None = None
    """Absent = only the sandbox's own limit."""
    stdin: bool = False
    """True = `command.input` will follow; false = stdin is empty."""
    pty: PtySize | None = None
    asker: Asker = Asker.USER

    def __post_init__(self) -> None:
        if (self.argv is None) == (self.shell is None):
            raise ValueError("give exactly one of `argv` and `shell`")

    def line(self) -> tuple[str, ...]:
        return self.argv if self.argv is not None else ("/bin/sh", "-c", self.shell or "")


class InputCommand(Order, frozen=True, kw_only=True):
    exec: ExecId
    data: Annotated[str, Meta(max_length=700_000)] = ""
    encoding: Encoding = Encoding.UTF8
    offset: Annotated[int, Meta(ge=0)] | None = None
    """Where in stdin these bytes belong: makes a repeated or reordered input harmless. Absent = at the end."""
    eof: bool = False


class SignalCommand(Order, frozen=True, kw_only=True):
    exec: ExecId
    signal: Annotated[int, Meta(ge=1, le=64)] = 15
    scope: Scope = Scope.TREE
    cancel: bool = False
    """The command is to end: it is recorded as `cancelled`, with its real exit status."""
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000
    """With `cancel`: SIGKILL follows after this long."""
    reason: Reason = "asked"


class ResizeCommand(Order, frozen=True, kw_only=True):
    exec: ExecId
    rows: Rows
    cols: Columns
