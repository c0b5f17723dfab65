"""Spans, for whoever collects them: what took how long, as a part of what. Imports nothing until somebody collects."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

Value = str | int | float | bool
Sink = Callable[["Span"], None]

SAMPLED = "01"


class Span(NamedTuple):
    """Over when it is told of. The same trace and id again is the same span."""

    name: str
    service: str
    trace: str
    """32 hexadecimal digits."""
    id: str
    """16 of them."""
    parent: str
    """The id of the span that it is a part of; empty for the first one."""
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    failure: str = ""
    """Why it did not come to what it was for."""
    kind: str = "internal"
    """server, producer, consumer or internal."""


_sinks: list[Sink] = []


def is_on() -> bool:
    return bool(_sinks)


def collect(sink: Sink) -> Callable[[], None]:
    """Every span from now on. Returns the way to stop that."""
    _sinks.append(sink)
    return lambda: _sinks.remove(sink) if sink in _sinks else None


def emit(span: Span) -> None:
    for sink in _sinks:
        sink(span)


def span_id(*names: str) -> str:
    """The same for the same names, whoever tells of it: a process that is killed leaves it to the next one."""
    return hashlib.sha256("/".join(names).encode()).hexdigest()[:16]
