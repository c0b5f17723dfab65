"""What a rule is: a pure function from its state and an event to its next state and what it finds."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from contracts.guardian import Finding, Policy
from services.guardian.seen import Seen

EVIDENCE = 20
TEXT_CHARACTERS = 500


class Outcome(NamedTuple):
    state: Any
    findings: tuple[Finding, ...] = ()


def never(_settings: Any, _state: Any) -> int | None:
    return None


class Rule(Struct, frozen=True, kw_only=True):
    """`step` knows no clock, no log and no other rule, never raises for any event, and keeps its state bounded."""

    name: str
    about: str
    reads: frozenset[str]
    """Tags of the events that it is given, beside `tick`."""
    settings: type[Policy]
    begin: Callable[[], Any]
    step: Callable[[Any, Any, Seen], Outcome]
    """(settings, state, event)"""
    due: Callable[[Any, Any], int | None] = never
    """(settings, state): when it wants a tick, in milliseconds since 1970."""


def shown(text: str) -> str:
    """Cut, and with nothing that could move a cursor: it came out of a sandbox."""
    cut = text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "replace").decode() for each in cut)


def newest(evidence: tuple[int, ...]) -> tuple[int, ...]:
    """As much as an event carries."""
    return tuple(sorted(set(evidence)))[-EVIDENCE:]
