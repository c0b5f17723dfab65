"""From a request to what came of it: each step a part of the one before, through the bus and over every crash."""

import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from contracts.errors import Invalid
from infra import asking
from infra.observing import about, spans
from infra.observing.spans import Span, Value
from infra.settings import Settings


class Place(NamedTuple):
    """Where in a trace something is."""

    trace: str
    span: str
    flags: str

    @property
    def is_sampled(self) -> bool:
        return self.flags.endswith(("1", "3"))

    def header(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"


def place_of(traceparent: str | None) -> Place | None:
    """None for what is none."""
    known = asking.PARENT.match(traceparent or "")
    return None if known is None else Place(*known.groups())


def new_place() -> Place:
    return Place(secrets.token_hex(16), "", spans.SAMPLED)


def named(sandbox: str, command: str) -> dict[str, Value]:
    """What every span says that it is about."""
    return {"cloche.sandbox": sandbox, "cloche.command": command}


@contextmanager
def step(name: str, said: dict[str, Value], *, at: str | None = None, kind: str = "internal") -> Iterator[None]:
    """A part of what is going on. What is begun meanwhile is a part of it.

    Nothing where nobody collects, or where whoever asked wants none. `at`: the span's id, else a new one.
    """
    here = place_of(asking.traceparent.get())
    if not spans.is_on() or here is None or not here.is_sampled:
        yield
        return
    inside = here._replace(span=at or secrets.token_hex(8))
    token = asking.traceparent.set(inside.header())
    start, failure = time.time_ns(), ""
    try:
        yield
    except BaseException as error:
        failure = type(error).__name__
        raise
    finally:
        asking.traceparent.reset(token)
        tell(name, inside, here.span, start, time.time_ns(), said, failure=failure, kind=kind)


def tell(
    name: str,
    place: Place,
    parent: str,
    start_ns: int,
    end_ns: int,
    said: dict[str, Value],
    *,
    failure: str = "",
    kind: str = "internal",
) -> None:
    """Of a span that is over."""
    if not spans.is_on() or not place.is_sampled:
        return
    spans.emit(
        Span(
            name=name,
            service=about.service.get() or "cloche",
            trace=place.trace,
            id=place.span,
            parent=parent,
            start_ns=start_ns,
            end_ns=max(start_ns, end_ns),
            attributes={key: value for key, value in said.items() if value != ""},
            failure=failure,
            kind=kind,
        )
    )


@asynccontextmanager
async def exporting(settings: Settings) -> AsyncIterator[None]:
    """While it is open, spans go where the settings say. Raises `Invalid` where what that needs is not installed."""
    if settings.tracing.endpoint is None:
        yield
        return
    try:
        from infra.observing.otlp import Exporter
    except ImportError as error:
        raise Invalid("tracing.endpoint: needs `cloche[otel]`, which is not installed") from error
    async with Exporter(settings.tracing, settings.node) as exporter:
        stop = spans.collect(exporter.take)
        try:
            yield
        finally:
            stop()
