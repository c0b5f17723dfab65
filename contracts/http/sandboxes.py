"""Sandboxes over HTTP."""

import datetime
from typing import Annotated

from msgspec import Meta, Struct

from contracts.commands.sandbox import Reason
from contracts.http.moments import Moment
from contracts.ids import SandboxId
from contracts.lacking import Lack
from contracts.message import JsonObject, Order
from contracts.queries import LoggedEvent
from contracts.state import SandboxState

Spec = Annotated[JsonObject, Meta(extra_json_schema={"$ref": "#/components/schemas/SandboxSpec"})]


class NewSandbox(Order, frozen=True, kw_only=True):
    id: SandboxId | None = None
    """Absent = one is chosen; with an `Idempotency-Key` always the same one."""
    spec: Spec = {}
    """What differs from the node's defaults."""


class NewFork(Order, frozen=True, kw_only=True):
    """A new sandbox that begins as another was: its files, its specification, its agents' conversations."""

    id: SandboxId | None = None
    """Of the new one; chosen as in `NewSandbox`."""
    at: Moment | None = None
    """A sequence of the log, or a time. Absent = now."""
    spec: Spec = {}
    """What is to be different."""


class Stop(Order, frozen=True, kw_only=True):
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000
    reason: Reason = "asked"


class Accepted(Struct, frozen=True, kw_only=True):
    """The order is durable. What becomes of it is told in the log."""

    sandbox: str
    command: str
    """The order's id: the `correlationid` of every event that comes of it."""


class SandboxPage(Struct, frozen=True, kw_only=True):
    sandboxes: tuple[SandboxState, ...]
    """By their ids."""
    applied_sequence: int
    """How far the read model had read the log."""
    next: str | None = None
    """There may be more: ask with `after` of this."""


class SandboxDetail(Struct, frozen=True, kw_only=True):
    sandbox: SandboxState
    events: tuple[LoggedEvent, ...]
    """The last ones, oldest first."""
    last_heartbeat_at: datetime.datetime | None = None
    """When whoever watches over it last found it alive; absent once that is an hour ago."""
    lacking: tuple[Lack, ...] = ()
    """What is known to be missing since the first of these events: see `cloche audit`. Retention is no loss."""
    head_sequence: int
    """The log's last sequence at that moment: follow from the next one."""
