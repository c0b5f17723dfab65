"""Counts what is put on the log, by the kind that its subject names."""

from contracts import subjects
from contracts.errors import Invalid
from infra.observing import catalogue
from infra.observing.figures import OTHER, Number


def stored(service: str, subject: str, size: int) -> None:
    line_of(subject).value += 1
    catalogue.bytes_stored.of(service).value += size


def line_of(subject: str) -> Number:
    try:
        parsed = subjects.parse_event(subject)
    except Invalid:
        return catalogue.events_stored.of(OTHER, OTHER)
    return catalogue.events_stored.of(parsed.family, parsed.kind)
