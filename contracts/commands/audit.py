"""Orders about the log itself, to the replay service."""

from typing import Annotated

from msgspec import Meta

from contracts.message import Order


class RotateAuditKey(Order, frozen=True, kw_only=True):
    """A new key signs from now on; the old one is forgotten once the log says so."""

    reason: Annotated[str, Meta(max_length=1000)] = "asked"
