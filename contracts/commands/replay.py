"""Orders to the replay service: play a past session again."""

from typing import Annotated

from msgspec import Meta

from contracts.ids import Token
from contracts.message import Order

Sequence = Annotated[int, Meta(ge=1)]


class StartReplay(Order, frozen=True, kw_only=True):
    """The replay's id is the id of this command."""

    from_sequence: Sequence = 1
    to_sequence: Sequence | None = None
    speed: Annotated[float, Meta(gt=0, le=10_000)] = 1.0
    max_idle_ms: Annotated[int, Meta(ge=0)] | None = None


class PauseReplay(Order, frozen=True, kw_only=True):
    replay: Token


class SeekReplay(Order, frozen=True, kw_only=True):
    replay: Token
    sequence: Sequence


class StopReplay(Order, frozen=True, kw_only=True):
    replay: Token
