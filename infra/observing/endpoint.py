"""`/metrics` and `/healthz` of a process, for whoever may reach the address: figures have no secret in them."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

from infra.observing import polling
from infra.observing.presence import presence
from infra.settings import Metrics

logger = logging.getLogger(__name__)

REQUEST_BYTES = 8192
REQUEST_S = 5.0
MOST_AT_A_TIME = 16


class _Answer(NamedTuple):
    status: str
    kind: str
    body: bytes


@contextlib.asynccontextmanager
async def endpoint(settings: Metrics) -> AsyncIterator[None]:
    """Served while it is open, if the settings say so. A port that is taken is complained about: work goes on."""
    if settings.port is None:
        yield
        return
    polling.switch_on()
    served: dict[asyncio.StreamWriter, None] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(served) >= MOST_AT_A_TIME:
            # Whoever has a question asks it at once: the oldest one is held by somebody who has none.
            oldest = next(iter(served))
            del served[oldest]
            oldest.transport.abort()
        served[writer] = None
        try:
            await _serve(reader, writer)
        finally:
            served.pop(writer, None)

    try:
        server = await asyncio.start_server(serve, settings.host, settings.port, limit=REQUEST_BYTES)
    except OSError as error:
        logger.error("no figures at %s:%d: %s", settings.host, settings.port, error)  # noqa: TRY400
        yield
        return
    try:
        yield
    finally:
        server.close()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, and the connection is closed: whoever asks comes again in a quarter of a minute."""
    try:
        async with asyncio.timeout(REQUEST_S):
            head = await reader.readuntil(b"\r\n\r\n")
            answer = _answer(head)
            bare = head.startswith(b"HEAD ")
            writer.write(_head(answer) if bare else _head(answer) + answer.body)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.transport.abort()


def _answer(head: bytes) -> _Answer:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _text("405 Method Not Allowed", "only GET")
    if path == b"/healthz":
        return _health()
    if path == b"/metrics":
        return _figures()
    return _text("404 Not Found", "there are /metrics and /healthz")


def _figures() -> _Answer:
    from infra.observing.exposition import CONTENT_TYPE_LATEST, exposition

    return _Answer("200 OK", CONTENT_TYPE_LATEST, exposition())


def _health() -> _Answer:
    """200 while every service of this process takes orders and is connected; 503 and their names where not."""
    here = presence()
    ailing = here.ailing()
    # Before the first one is begun, nothing is well either.
    well = bool(here.services) and not ailing
    body = {"status": "ok" if well else "unavailable", "services": here.services, "ailing": ailing}
    return _Answer(
        "200 OK" if well else "503 Service Unavailable", "application/json", json.dumps(body).encode() + b"\n"
    )


def _text(status: str, words: str) -> _Answer:
    return _Answer(status, "text/plain; charset=utf-8", f"{words}\n".encode())


def _head(answer: _Answer) -> bytes:
    lines = (
        f"HTTP/1.1 {answer.status}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode()
