"""Hands spans to a collector, in the background: OTLP over HTTP."""

import asyncio
import logging
from typing import Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from infra.observing.spans import Span
from infra.settings import Tracing

TIMEOUT_S = 3.0
"""For one attempt: a collector that is away is nobody's trouble but its own."""
DELAY_MS = 1000
MOST_WAITING = 2048
"""More than that are dropped."""
KINDS = {"server": SpanKind.SERVER, "producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER}


class Exporter:
    def __init__(self, settings: Tracing, node: str) -> None:
        assert settings.endpoint is not None
        # It says at length whenever a collector is away.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        address = f"{settings.endpoint.rstrip('/')}/v1/traces"
        self._exporter = OTLPSpanExporter(endpoint=address, headers=settings.headers, timeout=TIMEOUT_S)
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=MOST_WAITING,
            # All that waits in one attempt, so that ending takes no longer than that.
            max_export_batch_size=MOST_WAITING,
            schedule_delay_millis=DELAY_MS,
        )
        self._node = node
        self._resources: dict[str, Resource] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tries once more to hand over what is left."""
        await asyncio.to_thread(self._processor.shutdown)

    def take(self, span: Span) -> None:
        self._processor.on_end(self._readable(span))

    def _readable(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace, span.id),
            parent=_context(span.trace, span.parent) if span.parent else None,
            resource=self._resource(span.service),
            attributes=dict(span.attributes),
            kind=KINDS.get(span.kind, SpanKind.INTERNAL),
            status=Status(StatusCode.ERROR, span.failure) if span.failure else Status(),
            start_time=span.start_ns,
            end_time=span.end_ns,
        )

    def _resource(self, service: str) -> Resource:
        if service not in self._resources:
            names = {"service.namespace": "cloche", "service.name": service, "service.instance.id": self._node}
            self._resources[service] = Resource(names)
        return self._resources[service]


def _context(trace: str, span: str) -> SpanContext:
    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
