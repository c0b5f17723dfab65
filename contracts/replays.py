"""Paced replays as their followers see them.

Events come verbatim on `cloche.replay.<replay>.<sandbox>.<family>.<kind>[.<scope>]`, with their sequence in the header
`Cloche-Sequence`, and the pass in `Cloche-Pass`. `cloche.replay.<replay>._.status` tells each change and, while it
plays, a sign of life every second. Whoever comes late asks `cloche.rpc.state.replay`, and drops what is not later.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from contracts.ids import Token
from contracts.lacking import Lack
from contracts.message import Order, Time
from contracts.screens import Screen

SEQUENCE_HEADER = "Cloche-Sequence"
PASS_HEADER = "Cloche-Pass"


class Playing(StrEnum):
    PLAYING = "playing"
    PAUSED = "paused"
    ENDED = "ended"
    """Everything was played. It can still be sought in, for a while."""
    STOPPED = "stopped"


class ReplayStatus(Struct, frozen=True, kw_only=True):
    replay: str
    sandbox: str
    playing: Playing
    speed: float
    position: int
    """The sequence of the last event that was played; one before the first where none was."""
    time: Time | None = None
    """When that event happened."""
    first_sequence: int
    last_sequence: int
    first_time: Time | None = None
    last_time: Time | None = None
    max_idle_ms: int
    types: tuple[str, ...] = ()
    loop: bool = False
    passes: int = 1
    """Which pass this is. It changes with every seek and at every new beginning: positions may go back then."""
    orders: tuple[str, ...] = ()
    """The ids of the last commands that it has obeyed, the newest last."""
    lacking: tuple[Lack, ...] = ()
    """What the log has lost in the range that was asked for, as far as is known by now: that is not played. The first
    100 of them."""


class GetReplay(Order, frozen=True, kw_only=True):
    replay: Token
    screens: bool = True


class JoinedReplay(Struct, frozen=True, kw_only=True):
    status: ReplayStatus
    screens: tuple[Screen, ...] = ()
    """Of the commands that were running at its position, and of the last that ended."""


class ListReplays(Order, frozen=True, kw_only=True):
    sandbox: Token | None = None


class ReplayList(Struct, frozen=True, kw_only=True):
    replays: tuple[ReplayStatus, ...]


class Replaying(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the replay service."""

    max_idle_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 2000
    """Of a paced replay that does not say."""
    max_replays: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """At a time."""
    snapshot_events: Annotated[int, Meta(ge=10, le=1_000_000)] = 2000
    """Events of a sandbox between two snapshots of its fold."""
    snapshot_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 40)] = 2 << 30
    """That all snapshots may take; the ones that were used longest ago go first."""


REQUESTS: dict[str, type[Order]] = {"replay": GetReplay, "replays": ListReplays}
ANSWERS: dict[str, type[Struct]] = {"replay": JoinedReplay, "replays": ReplayList}
