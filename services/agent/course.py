"""The spans of a run: the whole of it, and each call of a tool."""

import datetime
import time

from contracts.events import agent as facts
from contracts.message import Fact
from infra import asking
from infra.observing import spans, tracing
from services.agent.record import Record


def enter(record: Record) -> None:
    """From now on this task works for the run, and what it orders is a part of it."""
    here = tracing.place_of(record.trace)
    if here is not None and spans.is_on():
        asking.traceparent.set(here._replace(span=_run(record)).header())


def told(record: Record, fact: Fact) -> None:
    """A fact of the run is on record. Told again after a crash, a span is the same."""
    here = tracing.place_of(record.trace)
    if here is None or not spans.is_on():
        return
    match fact:
        case facts.AgentToolResult(call=call, ok=ok) if call in record.calls:
            tool, begun = record.calls[call]
            said = {**_about(record), "cloche.tool": tool, "cloche.call": call}
            place = here._replace(span=spans.span_id("call", record.run, call))
            failure = "" if ok else "error"
            tracing.tell(f"tool {tool}"[:100], place, _run(record), _ns(begun), time.time_ns(), said, failure=failure)
        case facts.AgentCompleted() | facts.AgentError(final=True):
            place = here._replace(span=_run(record))
            failure = fact.failure.code if isinstance(fact, facts.AgentError) else ""
            tracing.tell(
                "agent run", place, here.span, _ns(record.started_at), time.time_ns(), _about(record), failure=failure
            )


def _run(record: Record) -> str:
    return spans.span_id("run", record.sandbox, record.run)


def _about(record: Record) -> dict[str, spans.Value]:
    runtime = record.started.runtime
    return {"cloche.sandbox": record.sandbox, "cloche.run": record.run, "cloche.runtime": runtime}


def _ns(moment: datetime.datetime) -> int:
    return int(moment.timestamp() * 1e9)
