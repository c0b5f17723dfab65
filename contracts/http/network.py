"""A sandbox's way out over HTTP."""

from msgspec import Struct

from contracts.approvals import Approvals
from contracts.lacking import Lack
from contracts.spec import Network
from contracts.traffic import Traffic


class NetworkView(Struct, frozen=True, kw_only=True):
    sequence: int
    """The sequence of the log that this holds for."""
    network: Network
    """What it may reach."""
    approvals: Approvals
    """What waits for an answer, and the answers that hold."""
    traffic: Traffic
    """What passed and what was denied: sums, and the last requests. The others are `events?type=network`."""
    lacking: tuple[Lack, ...] = ()
    """What the log has lost up to there: this was told without it."""
