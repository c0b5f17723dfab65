"""What the log says of a command."""

from collections.abc import AsyncIterator

import msgspec

from contracts import codec, subjects
from contracts.errors import Failure, Invalid, from_failure
from contracts.events import command as facts
from contracts.events.audit import DeadLetter
from contracts.http.commands import CommandDetail, CommandResult
from contracts.message import EventHead, Fact
from contracts.payload import pack, unpack
from contracts.proof import TERMINAL
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.client.sandbox import Sandbox
from infra.log.view import LogView

MOST_OUTPUT = 1 << 20
"""Bytes of each stream in one answer."""
GIVEN_UP = "given_up"
SERVER_ERROR = 500


def told(detail: CommandDetail, sequence: int, head: EventHead, fact: Fact | None) -> CommandDetail:
    """One event further."""
    known = msgspec.structs.replace(detail, last_sequence=sequence, first_sequence=detail.first_sequence or sequence)
    if head.type.startswith(f"{subjects.DEAD_LETTER}."):
        # Somebody may reuse the id of a running command for an order that is given up.
        return detail if detail.started_at or detail.outcome else _given_up(known, head)
    match fact:
        case facts.CommandStarted():
            return msgspec.structs.replace(
                known, argv=fact.argv, cwd=fact.cwd, pty=fact.pty, asker=str(fact.asker), started_at=head.time
            )
        case facts.CommandCompleted() | facts.CommandTimedOut() | facts.CommandCancelled():
            ended = fact.exit or facts.Exit()
            return msgspec.structs.replace(
                known,
                outcome=head.type.partition(".")[2],
                exit_code=ended.code,
                signal=ended.signal,
                cause=fact.cause,
                duration_ms=fact.duration_ms,
                totals=fact.totals,
            )
        case facts.CommandLost():
            return msgspec.structs.replace(
                known, outcome="lost", cause=f"{fact.cause}: {fact.detail}", totals=fact.totals
            )
        case facts.CommandRejected():
            return msgspec.structs.replace(known, outcome="rejected", cause=fact.cause, failure=fact.failure)
    return detail


def _given_up(detail: CommandDetail, head: EventHead) -> CommandDetail:
    try:
        failure: Failure = codec.decode(head.data, DeadLetter).reason
    except Invalid as error:
        failure = error.failure()
    return msgspec.structs.replace(detail, outcome=GIVEN_UP, cause=failure.message, failure=failure)


def refuse_if_at_fault(result: CommandResult) -> None:
    """Raises why it never ran, where that is the sandbox's state or the order itself, and not the command."""
    if result.failure is not None and (error := from_failure(result.failure)).http_status < SERVER_ERROR:
        raise error


async def on_record(view: LogView, sandbox: str, exec_id: str) -> CommandDetail | None:
    """None where the log knows nothing of it. Raises `Unavailable`."""
    kinds = ("started", *TERMINAL)
    wanted = [subjects.event(sandbox, f"command.{kind}", exec_id) for kind in kinds]
    entries = await view.lasts([*wanted, *subjects.events_of(sandbox, family=subjects.DEAD_LETTER, scope=exec_id)])
    detail = CommandDetail(sandbox=sandbox, exec=exec_id, first_sequence=0, last_sequence=0)
    for entry in sorted(entries, key=lambda entry: entry.seq):
        head = codec.decode_head(entry.data)
        detail = told(detail, entry.seq, head, codec.decode_fact(head))
    return detail if detail.last_sequence else None


async def ended(bus: Bus, sandbox: Sandbox, exec_id: str) -> None:
    """Returns when the log has its end."""
    kinds = [subjects.event(sandbox.id, f"command.{kind}", exec_id) for kind in TERMINAL]
    letters = subjects.events_of(sandbox.id, family=subjects.DEAD_LETTER, scope=exec_id)
    async for _ in reader.read(bus, [*kinds, *letters], sandbox.state.first_sequence, follow=True):
        return


async def run_to_end(entries: AsyncIterator[Entry], sandbox: str, exec_id: str) -> CommandResult | None:
    """From every event of it. Of what it wrote, so much is kept as one answer may hold."""
    detail = CommandDetail(sandbox=sandbox, exec=exec_id, first_sequence=0, last_sequence=0)
    kept = {stream: bytearray() for stream in facts.Stream}
    wrote = 0
    async for entry in entries:
        head = codec.decode_head(entry.data)
        fact = codec.decode_fact(head)
        if isinstance(fact, facts.CommandOutput):
            room = MOST_OUTPUT - len(kept[fact.stream])
            kept[fact.stream] += unpack(fact.data, fact.encoding)[:room] if room else b""
            wrote += fact.size
        detail = told(detail, entry.seq, head, fact)
        if detail.outcome is not None:
            return _result(detail, kept, wrote)
    return None


def _result(detail: CommandDetail, kept: dict[facts.Stream, bytearray], wrote: int) -> CommandResult:
    stdout = pack(bytes(kept[facts.Stream.STDOUT] or kept[facts.Stream.PTY]))
    stderr = pack(bytes(kept[facts.Stream.STDERR]))
    return CommandResult(
        **msgspec.structs.asdict(detail),
        stdout=stdout.data,
        stdout_encoding=stdout.encoding,
        stderr=stderr.data,
        stderr_encoding=stderr.encoding,
        truncated=sum(map(len, kept.values())) < wrote,
    )
