"""A session as a file, made while it is downloaded."""

from collections.abc import AsyncGenerator, AsyncIterator
from enum import StrEnum
from typing import Annotated

from litestar import Router, get
from litestar.params import QueryParameter
from litestar.response import Stream

from contracts import subjects
from contracts.access import Principal
from contracts.audits import AuditState, GetAudit
from contracts.errors import Invalid, NotFound, Unavailable
from contracts.http import moments
from contracts.http.moments import read_moment
from contracts.ids import TOKEN_PATTERN
from infra.bus.connection import Bus
from infra.client.asking import ask
from infra.export.cast import write_cast
from infra.export.jsonl import Span, export, span_of
from infra.export.page.page import page
from infra.log.choosing import view_of
from infra.log.live import LiveView
from infra.log.view import LogView
from infra.moments import sequence_at
from services.gateway.desk import Desk
from services.gateway.routes.outlet import written
from services.gateway.routes.params import Asked, Found, TheDesk
from services.gateway.routes.ran import on_record
from services.gateway.routes.ranges import OCTETS, attachment


class ExportFormat(StrEnum):
    JSONL = "jsonl"
    ASCIICAST = "asciicast"
    ASCIICAST_V2 = "asciicast-v2"
    CAST = "cast"
    HTML = "html"


CASTS = {ExportFormat.ASCIICAST: 3, ExportFormat.CAST: 3, ExportFormat.ASCIICAST_V2: 2}
"""Their versions."""


@get("/export", media_type=OCTETS, operation_id="exportSandbox", summary="A session as a file")
async def export_session(
    request: Asked,
    desk: TheDesk,
    found: Found,
    format_: Annotated[
        ExportFormat,
        QueryParameter(
            name="format",
            description="`jsonl`: every event with what proves it. `asciicast` (or `cast`): what the terminals showed, "
            "for asciinema 3; `asciicast-v2` for asciinema 2. `html`: one page to look at.",
        ),
    ] = ExportFormat.JSONL,
    start: Annotated[
        str | None,
        QueryParameter(name="from", pattern=moments.PATTERN, max_length=40, description="A sequence or a time."),
    ] = None,
    end: Annotated[
        str | None,
        QueryParameter(name="to", pattern=moments.PATTERN, max_length=40, description="A sequence or a time."),
    ] = None,
    exec_id: Annotated[
        str | None,
        QueryParameter(name="exec", pattern=TOKEN_PATTERN, max_length=64, description="Of one command (not `jsonl`)."),
    ] = None,
    contents: Annotated[bool, QueryParameter(description="With the contents of files (`jsonl`).")] = True,
) -> Stream:
    """Made while it is downloaded, in flat memory; what breaks off has no end. Also of one that is gone."""
    desk.exports.check(request.user)
    view = await view_of(desk.bus, found.id)
    span = await span_of(
        view, found.id, await _sequence(desk, found.id, start, "from"), await _sequence(desk, found.id, end, "to")
    )
    if exec_id is not None and await on_record(view, found.id, exec_id) is None:
        raise NotFound(f"the log knows no command {exec_id!r} in sandbox {found.id!r}")
    log = await log_name(desk.bus, view) if format_ == ExportFormat.JSONL else ""
    pieces = _pieces(view, found.id, span, format_, exec_id, contents=contents, log=log)
    held = _held(desk, request.user, pieces)
    ending = "cast" if format_ in CASTS else format_
    return Stream(held, headers=attachment(f"{found.id}.{ending}".encode()), media_type=OCTETS)


async def _held(desk: Desk, principal: Principal, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    with desk.exports.taken(principal):
        async for piece in pieces:
            yield piece


async def log_name(bus: Bus, view: LogView) -> str:
    """Of this Cloche's log, as its auditor says; empty where nobody answers, or for another log."""
    if not isinstance(view, LiveView):
        return ""
    try:
        audit: AuditState = await ask(bus, subjects.state_rpc("audit"), GetAudit(), AuditState, patience=0)
    except (Unavailable, Invalid):
        return ""
    return audit.log


def _pieces(
    view: LogView, sandbox: str, span: Span, kind: ExportFormat, exec_id: str | None, *, contents: bool, log: str
) -> AsyncIterator[bytes]:
    match kind:
        case ExportFormat.JSONL:
            return written(lambda sink: export(view, sink, span, sandbox=sandbox, blobs=contents, log=log))
        case ExportFormat.HTML:
            return page(view, sandbox, first=span.first, last=span.last, exec_id=exec_id)
    version = CASTS[kind]
    return written(lambda sink: write_cast(view, sink, span, sandbox=sandbox, exec_id=exec_id, version=version))


async def _sequence(desk: Desk, sandbox: str, text: str | None, what: str) -> int | None:
    """Raises `Invalid`."""
    if text is None:
        return None
    moment = read_moment(text, what)
    if isinstance(moment, int):
        return moment
    try:
        stored = await sequence_at(desk.bus, sandbox, moment)
    except Invalid:
        if what == "from":
            # Before everything: from the beginning.
            return None
        raise
    return stored + 1 if what == "from" else stored


ROUTER = Router("/sandboxes/{sandbox_id:str}", route_handlers=[export_session], tags=["state"])
