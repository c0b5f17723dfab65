"""Orders about nodes, taken by the spawners."""

from typing import Annotated

from msgspec import Meta

from contracts.ids import NodeId
from contracts.message import Order

Reason = Annotated[str, Meta(max_length=1000)]


class DrainNode(Order, frozen=True, kw_only=True):
    """To the node itself."""

    reason: Reason = "asked"
    grace_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 0
    """What runs in a sandbox may go on for so long; then it ends as lost, and the sandbox is moved."""
    cancel: bool = False
    """It takes sandboxes again, and keeps those that have not left."""


class LoseNode(Order, frozen=True, kw_only=True):
    """To any node but the one that is gone. Refused for one that lives: it is drained, or stopped first."""

    node: NodeId
    reason: Reason = "asked"
    force: bool = False
    """Its last sign of life may be recent: it is enough that the next one does not come when it is due."""
