"""Questions to the read model on `cloche.rpc.state.<verb>`, and their answers."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from contracts import archives, audits, history, past, quotas, replays, screens
from contracts.errors import Failure
from contracts.ids import ExecId, SandboxId
from contracts.lacking import Lack
from contracts.message import Order
from contracts.state import SandboxState, Status

Limit = Annotated[int, Meta(ge=1, le=1000)]


class ListSandboxes(Order, frozen=True, kw_only=True):
    status: Status | None = None
    project_id: str | None = None
    task_id: str | None = None
    agent_id: str | None = None
    label: dict[str, str] = {}
    include_removed: bool = False
    after: str | None = None
    """Continue behind this sandbox id."""
    limit: Limit = 100


class GetSandbox(Order, frozen=True, kw_only=True):
    sandbox: SandboxId


class ListEvents(Order, frozen=True, kw_only=True):
    sandbox: SandboxId
    from_sequence: Annotated[int, Meta(ge=1)] = 1
    types: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Tags (`command.output`) or families (`command`). Empty = all."""
    limit: Limit = 100


class GetTerminal(Order, frozen=True, kw_only=True):
    sandbox: SandboxId
    exec: ExecId | None = None
    """Absent = the last command that was started."""
    max_bytes: Annotated[int, Meta(ge=1, le=524_288)] = 65_536


class SandboxList(Struct, frozen=True, kw_only=True):
    sandboxes: tuple[SandboxState, ...]
    applied_sequence: int
    """How far the read model had read the log."""
    more: bool


class LoggedEvent(Struct, frozen=True, kw_only=True):
    sequence: int
    event: msgspec.Raw
    """Verbatim, as it stands in the log."""


class EventList(Struct, frozen=True, kw_only=True):
    events: tuple[LoggedEvent, ...]
    next_sequence: int
    """The cursor to continue from."""
    more: bool
    lacking: tuple[Lack, ...] = ()
    """What the log has lost from `from_sequence` to the last of these, or to its end where there are no more."""


class TerminalChunk(Struct, frozen=True, kw_only=True):
    sequence: int
    kind: str
    """`input`, `output` or `error`."""
    data: str
    encoding: str


class Terminal(Struct, frozen=True, kw_only=True):
    exec: str
    chunks: tuple[TerminalChunk, ...]
    truncated: bool
    """Earlier output was left out to keep within `max_bytes`."""
    next_sequence: int
    lacking: tuple[Lack, ...] = ()
    """What the log has lost from the command's first event to its last."""


class Reply(Struct, frozen=True, kw_only=True):
    """The answer to every rpc: a result or a failure."""

    result: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    failure: Failure | None = None


QUERIES: dict[str, type[Order]] = {
    "sandboxes": ListSandboxes,
    "sandbox": GetSandbox,
    "events": ListEvents,
    "terminal": GetTerminal,
    **history.REQUESTS,
    **past.REQUESTS,
    **screens.REQUESTS,
    **replays.REQUESTS,
    **audits.REQUESTS,
    **archives.REQUESTS,
    **quotas.REQUESTS,
}
ANSWERS: dict[str, type[Struct]] = {
    "sandboxes": SandboxList,
    "sandbox": SandboxState,
    "events": EventList,
    "terminal": Terminal,
    **history.ANSWERS,
    **past.ANSWERS,
    **screens.ANSWERS,
    **replays.ANSWERS,
    **audits.ANSWERS,
    **archives.ANSWERS,
    **quotas.ANSWERS,
}
