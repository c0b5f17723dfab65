"""Orders to the replay service: play a past session again."""

from typing import Annotated

from msgspec import Meta

from contracts.ids import Token
from contracts.message import Order, Time

Sequence = Annotated[int, Meta(ge=1, le=2**53)]
Speed = Annotated[float, Meta(ge=0.001, le=10_000)]


class StartReplay(Order, frozen=True, kw_only=True):
    """The replay's id is the id of this command."""

    from_sequence: Sequence = 1
    to_sequence: Sequence | None = None
    """Absent = the last that is stored when it starts."""
    from_time: Time | None = None
    """Instead of `from_sequence`."""
    to_time: Time | None = None
    speed: Speed = 1.0
    max_idle_ms: Annotated[int, Meta(ge=0, le=86_400_000)] | None = None
    """Nothing that is between two events lasts longer, before `speed` counts. Absent = the node's setting."""
    types: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """Tags (`command.output`) or families (`command`). Empty = all."""
    loop: bool = False
    """From the beginning again at the end, until it is stopped."""
    paused: bool = False
    """It waits at its beginning."""


class PauseReplay(Order, frozen=True, kw_only=True):
    replay: Token
    speed: Speed | None = None
    """For when it goes on. Absent = as before."""


class ResumeReplay(Order, frozen=True, kw_only=True):
    replay: Token
    speed: Speed | None = None
    """Absent = as before. Also for one that is playing."""


class SeekReplay(Order, frozen=True, kw_only=True):
    """To just before the first event at or after `sequence`, or at or after `time`. It stays paused if it was."""

    replay: Token
    sequence: Sequence | None = None
    time: Time | None = None


class StepReplay(Order, frozen=True, kw_only=True):
    """Play so many events at once, and be paused."""

    replay: Token
    events: Annotated[int, Meta(ge=1, le=10_000)] = 1


class StopReplay(Order, frozen=True, kw_only=True):
    replay: Token
