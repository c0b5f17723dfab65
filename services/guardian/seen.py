"""An event as the rules see it."""

from typing import NamedTuple

from msgspec import Struct

from contracts import codec, registry
from contracts.message import Fact
from services.guardian.calls import Call
from services.guardian.moments import milliseconds

TICK = "tick"
"""No event of the log: time has come to the moment that a rule asked for."""


class OfRun(Struct, frozen=True):
    """All that anybody here wants of an agent's words."""

    run: str = ""


VIEWS: dict[str, type[Struct]] = {"agent.thinking": OfRun, "agent.message": OfRun}


class Seen(NamedTuple):
    sequence: int
    at_ms: int
    """When it was stored, by the server's clock."""
    tag: str
    fact: Fact | OfRun | None = None
    call: Call | None = None
    """The call that this event ends."""


class Told(NamedTuple):
    """An event read off the log: whose, and what."""

    sandbox: str
    seen: Seen


def read(sequence: int, at_ms: int | None, raw: bytes, wanted: frozenset[str]) -> Told | None:
    """None for what nobody wants. `at_ms` None = as the event itself says. Raises `Invalid`."""
    head = codec.decode_head(raw)
    if head.type not in wanted:
        return None
    kind = VIEWS.get(head.type) or registry.event_type(head.type)
    fact = None if kind is None else codec.decode(head.data, kind)
    when = milliseconds(head.time) if at_ms is None else at_ms
    return Told(head.sandboxid, Seen(sequence, when, head.type, fact))
