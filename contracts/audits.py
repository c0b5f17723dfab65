"""Who signs the log, asked for on `cloche.rpc.state.audit`; and what settings may choose about it."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from contracts.events.audit import AuditDamaged
from contracts.message import Order, Time


class Checking(StrEnum):
    """What is compared with the checkpoints when the service starts."""

    ALL = "all"
    """What was written last at once, and then the whole log, slowly."""
    TAIL = "tail"
    OFF = "off"


class Audit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    checkpoint_events: Annotated[int, Meta(ge=1, le=20_000)] = 1000
    """A checkpoint after so many events at most."""
    checkpoint_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 10.0
    """And after so long at most, where anything was stored."""
    anchors: Annotated[tuple[str, ...], Meta(max_length=20)] = ()
    """Where checkpoints are written besides: `file:/path`, `git:/path/of/a/repository`, `stdout:`."""
    check: Checking = Checking.ALL
    heirs: Annotated[tuple[str, ...], Meta(max_length=1000)] = ("*",)
    """Nodes that the key names as its heirs, by name. `*` = any."""

    def may_inherit(self, node: str) -> bool:
        return "*" in self.heirs or node in self.heirs


class GetAudit(Order, frozen=True, kw_only=True):
    pass


class HeirKey(Struct, frozen=True, kw_only=True):
    """Signs from the moment on that its node has to."""

    node: str
    key: str
    """Public, in hexadecimal."""


class AuditKey(Struct, frozen=True, kw_only=True):
    key: str
    """Public, in hexadecimal."""
    since_sequence: int
    """The first checkpoint or rotation that names it."""
    current: bool
    heirs: tuple[HeirKey, ...] = ()
    """Of the key that signs now: those that it has named."""


class AuditState(Struct, frozen=True, kw_only=True):
    log: str
    enabled: bool
    keys: tuple[AuditKey, ...]
    """Oldest first."""
    checkpoint: int = 0
    """The sequence up to which the log is proven."""
    checkpoint_at: Time | None = None
    checked: int = 0
    """The sequence up to which it was compared with its checkpoints since the service started."""
    damages: tuple[AuditDamaged, ...] = ()
    seen: int = 0
    """The sequence up to which it was hashed and noted outside the store."""
    troubles: tuple[str, ...] = ()
    """Why the log is not being proven, or not anchored."""


class Anchor(Struct, frozen=True, kw_only=True):
    """A checkpoint as it is kept elsewhere, one JSON object a line. See `contracts.chain.anchor`."""

    log: str
    first_sequence: int
    last_sequence: int
    previous: str
    hash: str
    key: str
    signature: str
    leaves_sha256: str
    """Of the checkpoint's `leaves`, as they are written there."""
    missing: tuple[tuple[int, int], ...] = ()
    time: Time


REQUESTS: dict[str, type[Order]] = {"audit": GetAudit}
ANSWERS: dict[str, type[Struct]] = {"audit": AuditState}
