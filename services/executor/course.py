"""The spans of a command: its start, and its process from beginning to end, whoever sees the end."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from contracts.events import command as facts
from contracts.registry import tag_of
from infra import asking
from infra.keeper.frame import Frame
from infra.observing import spans, tracing
from services.executor.record import Context, fact_of


@contextmanager
def starting(context: Context) -> Iterator[Context]:
    """While the keeper starts it. The context that it is to hold knows where in the trace that is."""
    with tracing.step("keeper start", tracing.named(context.sandbox, context.exec)):
        trace = (asking.traceparent.get() or "") if spans.is_on() else ""
        yield msgspec.structs.replace(context, trace=trace)


def ended(context: Context, begun_ns: int, frame: Frame) -> None:
    """The frame is the command's end. Told again after a crash, it is the same span."""
    here = tracing.place_of(context.trace)
    if here is None or not spans.is_on():
        return
    process = here._replace(span=spans.span_id("process", context.sandbox, context.exec))
    fact = fact_of(frame, context, ended=False)
    assert fact is not None
    outcome = tag_of(fact).partition(".")[2]
    said = {**tracing.named(context.sandbox, context.exec), "cloche.outcome": outcome, **_exit(fact)}
    failure = "" if outcome == "completed" else outcome
    tracing.tell("process", process, here.span, begun_ns, frame.time_ns, said, failure=failure)


def _exit(fact: object) -> dict[str, spans.Value]:
    if not isinstance(fact, facts.CommandCompleted | facts.CommandTimedOut | facts.CommandCancelled):
        return {}
    code, signal = (None, None) if fact.exit is None else (fact.exit.code, fact.exit.signal)
    told = {"process.exit.code": code, "process.exit.signal": signal}
    return {key: value for key, value in told.items() if value is not None}
