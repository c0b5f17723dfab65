"""Events as they stand in the log, one a line, with what proves them and the contents that they name."""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from msgspec import Struct

from contracts import codec, exports, subjects
from contracts.chain import Message
from contracts.errors import Invalid, SandboxNotFound
from contracts.events.audit import AuditCheckpoint
from contracts.exports import End, Header
from infra import clock
from infra.bus.page import Entry
from infra.export.contents import Contents, Sieve
from infra.export.sink import Sink
from infra.log.merging import merged
from infra.log.view import LogView

EVERY_EVENT = f"{subjects.ROOT}.log.*.>"
"""As `subjects.LOG`, but a hole in the log does not end it: what is left is wanted all the more."""
MOST_GAPS = 100
ENTRY_BYTES = 60
"""What a stored message takes besides its payload, its subject and its id."""

Progress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""


class Exported(NamedTuple):
    events: int
    blobs: int
    missing: int
    """Contents that are named and could not be had."""
    gaps: tuple[tuple[int, int], ...]
    """Sequences that a whole log lacks, from and to; the first 100."""
    proven: int
    """The sequence up to which a checkpoint of the export covers it."""
    bytes: int
    """That the events take in the log, roughly."""


class Span(NamedTuple):
    first: int
    last: int


async def span_of(view: LogView, sandbox: str | None, first: int | None = None, last: int | None = None) -> Span:
    """The sequences of a sandbox, or of the whole log, within the bounds that are given.

    Raises `SandboxNotFound`, `Invalid` (nothing is within those bounds), `Unavailable`.
    """
    if sandbox is None:
        begin, end = await view.bounds()
    else:
        begin, end = await _of_sandbox(view, sandbox)
    found = Span(max(begin, first or begin), min(end, last or end))
    if found.last < found.first:
        raise Invalid(f"there is nothing to export: the record reaches from sequence {begin} to {end}")
    return found


async def _of_sandbox(view: LogView, sandbox: str) -> Span:
    everything = subjects.events_of(sandbox)[0]
    first, last = await view.first(everything), await view.last(everything)
    if first is None or last is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
    return Span(first.seq, last.seq)


async def export(
    view: LogView,
    sink: Sink,
    span: Span,
    *,
    sandbox: str | None,
    blobs: bool = True,
    sieve: Sieve | None = None,
    log: str = "",
    progress: Progress = lambda _done, _whole: None,
) -> Exported:
    """Write everything of a span. Memory does not grow with it.

    `log` is the log's name, for the case that no checkpoint tells it yet.
    Raises `Unavailable`, `OSError` (of the sink, or of the place for temporary files).
    """
    header = Header(
        log=await log_name(view) or log,
        sandbox=sandbox,
        first_sequence=span.first,
        last_sequence=span.last,
        exported_at=clock.now(),
        continued=sieve is not None,
    )
    await sink.write(exports.encode_line(header))
    async with Contents(view.blobs, sieve) as contents:
        events, size, expected, gaps, proven = 0, 0, span.first, list[tuple[int, int]](), 0
        async for entry in _entries(view, sandbox, span):
            await sink.write(exports.encode_message(message_of(entry)))
            if blobs:
                await contents.note(entry)
            events, size = events + 1, size + stored_bytes(entry)
            if expected < entry.seq <= span.last and len(gaps) < MOST_GAPS:
                gaps.append((expected, entry.seq - 1))
            expected = entry.seq + 1
            proven = max(proven, _covered(entry).last_sequence) if entry.subject == subjects.checkpoints() else proven
            progress(min(entry.seq, span.last) - span.first + 1, span.last - span.first + 1)
        async for line in contents.lines():
            await sink.write(line)
        await sink.write(exports.encode_line(End(events=events, blobs=contents.written)))
        return Exported(
            events, contents.written, contents.missing, tuple(gaps) if sandbox is None else (), proven, size
        )


def stored_bytes(entry: Entry) -> int:
    """What it takes in the log, roughly."""
    return len(entry.data) + len(entry.subject) + len(entry.msg_id) + ENTRY_BYTES


def message_of(entry: Entry) -> Message:
    return Message(entry.seq, entry.subject, entry.msg_id, entry.stored_at, entry.data)


async def log_name(view: LogView) -> str:
    """As its newest checkpoint has it; empty where there is none. Raises `Unavailable`."""
    newest = await view.last(subjects.checkpoints())
    checkpoint = None if newest is None else _checkpoint(newest)
    return "" if checkpoint is None else checkpoint.log


def _entries(view: LogView, sandbox: str | None, span: Span) -> AsyncIterator[Entry]:
    wanted = EVERY_EVENT if sandbox is None else subjects.events_of(sandbox)[0]
    rotations = subjects.event(subjects.NO_SANDBOX, "audit.rotated")
    return merged(
        [view.read([wanted], span.first, end=span.last), _proofs(view, span), view.read([rotations], span.first)]
    )


class _Range(Struct, frozen=True):
    first_sequence: int
    last_sequence: int


def _covered(entry: Entry) -> _Range:
    """What a checkpoint covers; nothing where it cannot be read."""
    try:
        covered: _Range = codec.decode(codec.decode_head(entry.data).data, _Range)
    except Invalid:
        return _Range(0, 0)
    return covered


async def _proofs(view: LogView, span: Span) -> AsyncIterator[Entry]:
    """The checkpoints whose ranges touch the span: the last of them comes after what it covers."""
    async for entry in view.read([subjects.checkpoints()], span.first):
        covered = _covered(entry)
        if covered.first_sequence > span.last:
            return
        if covered.last_sequence >= span.first:
            yield entry
        if covered.last_sequence >= span.last:
            return


def _checkpoint(entry: Entry) -> AuditCheckpoint | None:
    try:
        fact = codec.decode_fact(codec.decode_head(entry.data))
    except Invalid:
        return None
    return fact if isinstance(fact, AuditCheckpoint) else None
