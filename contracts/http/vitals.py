"""What a sandbox uses, over HTTP. Signs of life may be lost, and they expire."""

from msgspec import Struct

from contracts.events.health import VitalsMetrics
from contracts.message import Time


class Sample(Struct, frozen=True, kw_only=True):
    at: Time
    use: VitalsMetrics


class Vitals(Struct, frozen=True, kw_only=True):
    sandbox: str
    health: str
    beat_at: Time | None = None
    """When it was last found alive."""
    current: Sample | None = None
    recent: tuple[Sample, ...] = ()
    """Oldest first."""
