"""Who asks, and in which trace: true for everything that one request leads to."""

import re
import secrets
from contextvars import ContextVar

from contracts.askers import CLIENT
from infra.observing import spans

source: ContextVar[str] = ContextVar("source", default=CLIENT)
"""The `source` of the commands that are published."""
traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""W3C trace context, handed on with them as a header."""

PARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})\Z")
"""Trace, span, flags."""


def trace_headers() -> dict[str, str] | None:
    """For a message that goes out now. None where nobody traces: headers cost."""
    trace = traceparent.get()
    return None if trace is None else {"traceparent": trace}


def trace_id() -> str:
    """Of the trace that this belongs to; empty where nobody traces."""
    trace = traceparent.get()
    return "" if trace is None else trace.split("-")[1]


def traced(parent: str | None) -> str:
    """A span of our own in the trace that somebody named, or in a new one."""
    known = PARENT.match(parent or "")
    new = "01" if spans.is_on() else "00"
    trace, flags = known.group(1, 3) if known else (secrets.token_hex(16), new)
    return f"00-{trace}-{secrets.token_hex(8)}-{flags}"
