"""A sandbox as it was at any sequence of the log, asked for on `cloche.rpc.state.state`.

Its files are asked for with `files` and `file` (see `contracts.history`), a terminal's screen with `screen`.
"""

from typing import Annotated

from msgspec import Meta, Struct

from contracts.conversation import Conversation
from contracts.events.health import VitalsMetrics
from contracts.history import Sequence
from contracts.ids import SandboxId
from contracts.lacking import Lack
from contracts.message import Order, Time
from contracts.state import SandboxState
from contracts.traffic import Traffic


class GetStateAt(Order, frozen=True, kw_only=True):
    sandbox: SandboxId
    at: Sequence | None = None
    """After the event with this sequence. Absent = now."""
    time: Time | None = None
    """Instead of `at`: after what was stored up to then."""


class StateAt(Struct, frozen=True, kw_only=True):
    sequence: int
    """The sequence that this holds for."""
    time: Time
    """When the last event up to there happened."""
    state: SandboxState
    """With the commands that ran, the runs of agents and what they waited for."""
    conversation: Conversation
    traffic: Traffic
    use: VitalsMetrics | None = None
    """What it used then, where the vitals of that time are still kept."""
    lacking: tuple[Lack, ...] = ()
    """What the log has lost since the sandbox began, up to there: this was told without it."""


class Rebuild(Order, frozen=True, kw_only=True):
    """Fold the read models from nothing. Answers and following go on meanwhile."""

    follow: str | None = None
    """Look how the one with this id stands, and begin none."""


class Rebuilding(Struct, frozen=True, kw_only=True):
    id: str
    applied_sequence: int
    """How far it has read."""
    last_sequence: int
    """How far it has to read."""
    done: bool
    sandboxes: int = 0
    changed: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    """Sandboxes whose read model was not what the log says, or was lost."""


REQUESTS: dict[str, type[Order]] = {"state": GetStateAt, "rebuild": Rebuild}
ANSWERS: dict[str, type[Struct]] = {"state": StateAt, "rebuild": Rebuilding}
