"""What `cloche export` does, once it is clear what is wanted."""

import datetime
import sys
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self

from contracts import subjects
from contracts.audits import AuditState, GetAudit
from contracts.errors import Invalid, Unavailable
from contracts.ids import is_token
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.asking import ask
from infra.export.jsonl import Span, export, span_of
from infra.export.sink import Sink, sink_to
from infra.log.choosing import view_of
from infra.log.live import LiveView
from infra.log.view import LogView
from infra.moments import Moment, sequence_at
from services.cli.moments import moment
from services.cli.progress_line import ProgressLine
from services.cli.values import duration_ms


class Format(StrEnum):
    JSONL = "jsonl"
    ASCIICAST = "asciicast"
    ASCIICAST_V2 = "asciicast-v2"
    HTML = "html"


SUFFIXES = {Format.JSONL: "jsonl", Format.ASCIICAST: "cast", Format.ASCIICAST_V2: "cast", Format.HTML: "html"}


class Wanted(NamedTuple):
    """As it was typed."""

    sandbox: str | None
    everything: bool
    output: str | None
    kind: Format
    start: str | None
    end: str | None
    exec_id: str | None
    max_idle: str | None
    blobs: bool

    def checked(self) -> Self:
        """Raises `Invalid` for what does not go together."""
        if (self.sandbox is None) != self.everything:
            raise Invalid("name a sandbox, or say `--all` for the whole log")
        if self.sandbox is not None and not is_token(self.sandbox):
            raise Invalid(f"{self.sandbox!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
        if self.everything and self.kind != Format.JSONL:
            raise Invalid(f"--format {self.kind} shows one sandbox: name it instead of --all")
        if self.kind == Format.JSONL and (self.exec_id or self.max_idle):
            raise Invalid("--exec and --max-idle are for asciicast and html: jsonl has every event as it is")
        if self.exec_id is not None and not is_token(self.exec_id):
            raise Invalid(f"{self.exec_id!r} is not the id of a command: see `cloche events`")
        return self

    @property
    def file(self) -> Path | None:
        """None = standard output."""
        if self.output == "-":
            return None
        return Path(self.output or f"{self.sandbox or 'log'}.{SUFFIXES[self.kind]}")

    def bus(self, cloche: Cloche) -> Bus:
        """Raises `Invalid` for the whole of a log that is divided."""
        return cloche.bus if self.sandbox is None else cloche.bus_of(self.sandbox)

    @property
    def max_idle_ms(self) -> int | None:
        return None if self.max_idle is None else duration_ms(self.max_idle)


async def export_session(cloche: Cloche, wanted: Wanted) -> list[str]:
    """Returns what there is to say about it. Raises what the exports raise, `OSError`."""
    if wanted.file is None and sys.stdout.isatty():
        # What is exported is as it was written inside, and a terminal obeys what it is shown.
        raise Invalid("standard output is a terminal: name a file, or let another program read it")
    bus = wanted.bus(cloche)
    view = LiveView(bus) if wanted.sandbox is None else await view_of(bus, wanted.sandbox)
    first, last = await _sequence(bus, wanted, "--from"), await _sequence(bus, wanted, "--to")
    span = await span_of(view, wanted.sandbox, first, last)
    with ProgressLine(f"export {wanted.sandbox or 'the log'}") as line:
        async with sink_to(wanted.file) as sink:
            told = await _write(bus, view, sink, span, wanted, line)
    where = [] if wanted.file is None else [f"{wanted.file}: {told[0]}"]
    return [*where, *told[1:]]


async def _write(bus: Bus, view: LogView, sink: Sink, span: Span, wanted: Wanted, line: ProgressLine) -> list[str]:
    if wanted.kind == Format.JSONL:
        return await _jsonl(view, sink, span, wanted, line, await _log_name(bus, view))
    if wanted.kind == Format.HTML:
        return await _html(view, sink, span, wanted, line)
    from infra.export.cast import write_cast

    cast = await write_cast(
        view,
        sink,
        span,
        sandbox=wanted.sandbox or "",
        exec_id=wanted.exec_id,
        version=3 if wanted.kind == Format.ASCIICAST else 2,
        max_idle_s=None if wanted.max_idle_ms is None else wanted.max_idle_ms / 1000,
        progress=line.at,
    )
    return [f"plays for {cast.seconds:.1f} s"]


async def _log_name(bus: Bus, view: LogView) -> str:
    """Of this Cloche's log, as its auditor says; empty where nobody answers, or for another log."""
    if not isinstance(view, LiveView):
        return ""
    try:
        audit: AuditState = await ask(bus, subjects.state_rpc("audit"), GetAudit(), AuditState, patience=0)
    except (Unavailable, Invalid):
        return ""
    return audit.log


async def _jsonl(view: LogView, sink: Sink, span: Span, wanted: Wanted, line: ProgressLine, log: str) -> list[str]:
    exported = await export(view, sink, span, sandbox=wanted.sandbox, blobs=wanted.blobs, log=log, progress=line.at)
    told = [f"{exported.events} events, {exported.blobs} contents"]
    if exported.missing:
        told.append(f"{exported.missing} contents that are named could not be had: they were never kept, or are gone")
    if log and exported.proven < span.last:
        unproven = max(exported.proven + 1, span.first)
        told.append(
            f"what is from sequence {unproven} on is not signed yet: to have it proven, export again in a moment"
        )
    told += [f"the log lacks sequence {first} to {last}: see `cloche audit`" for first, last in exported.gaps]
    return told


async def _html(view: LogView, sink: Sink, span: Span, wanted: Wanted, line: ProgressLine) -> list[str]:
    from infra.export.page.page import MAX_IDLE_MS, page

    async for piece in page(
        view,
        wanted.sandbox or "",
        first=span.first,
        last=span.last,
        exec_id=wanted.exec_id,
        max_idle_ms=wanted.max_idle_ms or MAX_IDLE_MS,
        on_progress=lambda sequence: line.at(sequence - span.first + 1, span.last - span.first + 1),
    ):
        await sink.write(piece)
    return ["open it in a browser"]


async def _sequence(bus: Bus, wanted: Wanted, option: str) -> int | None:
    text = wanted.start if option == "--from" else wanted.end
    if text is None:
        return None
    when: Moment = moment(text, option)
    if not isinstance(when, datetime.datetime):
        return when
    try:
        stored = await sequence_at(bus, wanted.sandbox or subjects.NO_SANDBOX, when)
    except Invalid:
        if option == "--from":
            # Before everything: from the beginning.
            return None
        raise
    return stored + 1 if option == "--from" else stored
