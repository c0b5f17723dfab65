"""Orders about a sandbox's life, taken by the spawner."""

from typing import Annotated

import msgspec
from msgspec import Meta

from contracts.errors import Failure
from contracts.ids import Name, SandboxId
from contracts.message import Order

Reason = Annotated[str, Meta(max_length=1000)]
Instance = Annotated[str, Meta(max_length=200)]


class CreateSandbox(Order, frozen=True, kw_only=True):
    spec: Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/SandboxSpec"})] = msgspec.field(
        default_factory=lambda: msgspec.Raw(b"{}")
    )
    """A SandboxSpec, kept raw so that what was left out can take the node's own defaults."""


class StartSandbox(Order, frozen=True, kw_only=True):
    pass


class StopSandbox(Order, frozen=True, kw_only=True):
    grace_ms: Annotated[int, Meta(ge=0, le=600_000)] = 10_000
    reason: Reason = "asked"
    instance: Instance | None = None
    """Only if it is still this life of the sandbox; absent = whichever it is."""
    failure: Failure | None = None
    """Where nobody asked for it: why, for `sandbox.stopped`."""


class PauseSandbox(Order, frozen=True, kw_only=True):
    pass


class ResumeSandbox(Order, frozen=True, kw_only=True):
    pass


class RemoveSandbox(Order, frozen=True, kw_only=True):
    reason: Reason = "asked"


class SnapshotSandbox(Order, frozen=True, kw_only=True):
    label: Name | None = None


class RecoverSandbox(Order, frozen=True, kw_only=True):
    reason: Reason = "asked"
    sequence: Annotated[int, Meta(ge=1)] | None = None
    """Restore the workspace as of this sequence; absent = the last that is known."""
    instance: Instance | None = None
    """Only if it is still this life that died. Absent = a person asks, also for one that was stopped or has failed."""
    lifecycle_sequence: Annotated[int, Meta(ge=1)] | None = None
    """Only if nothing has moved it since this event; absent = whatever has become of it."""
    lost_sequence: Annotated[int, Meta(ge=1)] | None = None
    """Only while the node that has it is gone by this `node.lost`; absent = whatever has become of the node."""


class ChangeNetwork(Order, frozen=True, kw_only=True):
    """Takes effect at once for new requests; connections that are no longer allowed are cut."""

    network: Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/Network"})] = msgspec.field(
        default_factory=lambda: msgspec.Raw(b"{}")
    )
    """A Network, kept raw so that what was left out stays as it is. Mode `full` can be neither entered nor left."""


class ForkSandbox(Order, frozen=True, kw_only=True):
    """A new sandbox that begins as this one was: its files, its specification, its agents' conversations.

    Its origin may be stopped or removed, and is left as it is. Goes to any node.
    """

    fork: SandboxId
    """The id of the new sandbox."""
    sequence: Annotated[int, Meta(ge=1)]
    """After the event with this sequence of the log."""
    spec: Annotated[msgspec.Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/SandboxSpec"})] = msgspec.field(
        default_factory=lambda: msgspec.Raw(b"{}")
    )
    """A SandboxSpec, kept raw: what is left out is as it was. Its files cannot come from elsewhere."""
