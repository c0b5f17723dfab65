"""A collector of spans: takes OTLP over HTTP, as any does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WITHIN_S = 60.0


class Seen(NamedTuple):
    name: str
    service: str
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    said: dict[str, str | int]


class Collector:
    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.port = 0
        self._news = asyncio.Condition()

    async def until(self, wanted: Callable[[Seen], bool]) -> Seen:
        """The first such span that came or comes."""
        async with asyncio.timeout(WITHIN_S), self._news:
            while True:
                for span in self.spans:
                    if wanted(span):
                        return span
                await self._news.wait()

    def of(self, id_: str) -> Seen:
        return next(span for span in self.spans if span.id == id_)

    def above(self, span: Seen) -> list[str]:
        """The names of everything that it is a part of, from the inside out."""
        found = {each.id: each for each in self.spans}
        names = []
        while (parent := found.get(span.parent)) is not None:
            names.append(parent.name)
            span = parent
        return names

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                assert head.startswith("post /v1/traces ")
                size = next(line for line in head.splitlines() if line.startswith("content-length:"))
                await self._take(await reader.readexactly(int(size.partition(":")[2])))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = next(
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            )
            for scope in resource.scope_spans:
                for span in scope.spans:
                    said = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
                    seen = Seen(
                        span.name,
                        service,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        said,
                    )
                    self.spans.append(seen)
        async with self._news:
            self._news.notify_all()


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    server = await asyncio.start_server(collector.serve, "127.0.0.1", 0)
    collector.port = server.sockets[0].getsockname()[1]
    try:
        yield collector
    finally:
        server.close()
