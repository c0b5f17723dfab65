"""A keeper's frames as facts. Pure: the same frame is always the same fact."""

import datetime
import hashlib
import signal
from typing import NamedTuple, TypeGuard

import msgspec
from msgspec import Struct

from contracts import codec
from contracts.commands.command import Asker, PtySize, RunCommand
from contracts.errors import Invalid, SandboxExecFailed
from contracts.events import command as facts
from contracts.message import Fact
from contracts.payload import pack
from contracts.streams import MAX_MESSAGE_BYTES
from infra.keeper import outcome
from infra.keeper.frame import Frame, Kind

LOST_BECAUSE = {
    "keeper_died": "the keeper that held it died",
    "keeper_failed": "the keeper could not hold it; see keeper.log",
    "sandbox_silent": "its sandbox did not say whether it began",
    "keeper_stopped": "the keeper that held it was stopped",
    "connection_lost": "the connection to its container broke, and it was killed",
    "sandbox_gone": "its sandbox went away while it ran",
}
SHOWN = 200
TIMED_OUT = "timed_out"
CANCELLED = "cancelled"
OUT_OF_MEMORY = "oom"
ORPHAN = "orphan"
"""Marks the end of a command that was told without its record, as a frame's number marks what is told from it."""
STARTED_BYTES = MAX_MESSAGE_BYTES - 8 * 1024
"""Leaves room for the envelope and the headers."""

_OUTPUT = {Kind.STDOUT: facts.Stream.STDOUT, Kind.STDERR: facts.Stream.STDERR, Kind.PTY: facts.Stream.PTY}


def key_of(sandbox: str, exec_id: str) -> str:
    """Names a record at the keeper. An exec id is the client's choice, so it is unique in its sandbox only."""
    return hashlib.sha256(f"{sandbox}.{exec_id}".encode()).hexdigest()[:40]


class Context(Struct, frozen=True, kw_only=True):
    """What the executor must know again after a restart. The keeper holds it and never looks into it."""

    sandbox: str
    exec: str
    argv: tuple[str, ...]
    cwd: str
    environment: tuple[str, ...]
    pty: PtySize | None
    stdin: bool
    timeout_ms: int | None
    asker: str
    by: str = ""
    """Absent in what a keeper holds for an earlier version."""
    trace: str = ""
    """What its process is a part of, for whoever sees it end; so may this."""

    @property
    def key(self) -> str:
        return key_of(self.sandbox, self.exec)


def context_of(sandbox: str, exec_id: str, order: RunCommand, workspace: str, by: str = "") -> Context:
    """Raises `Invalid` for a command line that is too large to be on the record."""
    context = Context(
        sandbox=sandbox,
        exec=exec_id,
        argv=order.line(),
        cwd=order.cwd or workspace,
        environment=tuple(sorted(order.env)),
        pty=order.pty,
        stdin=order.stdin or order.pty is not None,
        timeout_ms=order.timeout_ms,
        asker=order.asker,
        by=by,
    )
    if (size := len(codec.encode(started(context)))) > STARTED_BYTES:
        raise Invalid(f"the command line is too large: {size} bytes, {STARTED_BYTES} at most; use a file or stdin")
    return context


def started(context: Context) -> facts.CommandStarted:
    return facts.CommandStarted(
        exec=context.exec,
        argv=context.argv,
        cwd=context.cwd,
        environment=context.environment,
        pty=facts.TerminalSize(rows=context.pty.rows, cols=context.pty.cols) if context.pty else None,
        stdin=context.stdin,
        timeout_ms=context.timeout_ms,
        asker=Asker(context.asker),
        by=context.by,
    )


def time_of(time_ns: int) -> datetime.datetime:
    """When it happened, which may be long before it could be published."""
    return datetime.datetime.fromtimestamp(time_ns / 1e9, datetime.UTC)


def fact_of(frame: Frame, context: Context, *, ended: bool) -> Fact | None:
    """None for a frame that only the keeper needs. `ended`: the command's end was in an earlier frame."""
    if frame.kind in _OUTPUT:
        return _output(frame, context, _OUTPUT[frame.kind], ended=ended)
    match frame.kind:
        case Kind.STDIN | Kind.STDIN_EOF:
            packed = pack(frame.payload)
            return facts.CommandInput(
                exec=context.exec,
                offset=frame.offset,
                size=len(frame.payload),
                data=packed.data,
                encoding=packed.encoding,
                eof=frame.kind == Kind.STDIN_EOF,
            )
        case Kind.EXIT:
            return _ended(msgspec.json.decode(frame.payload, type=outcome.Exit), context)
        case Kind.LOST:
            lost = msgspec.json.decode(frame.payload, type=outcome.Lost)
            detail = LOST_BECAUSE.get(lost.cause, lost.cause)
            return facts.CommandLost(exec=context.exec, cause=lost.cause, detail=detail, totals=_totals(lost.totals))
        case Kind.FAILED:
            failed = msgspec.json.decode(frame.payload, type=outcome.Failed)
            what = (context.cwd if failed.code == "BAD_CWD" else context.argv[0])[:SHOWN]
            failure = SandboxExecFailed(f"{what}: {failed.message}", reason=failed.code).failure()
            return facts.CommandRejected(exec=context.exec, failure=failure, cause=failure.message)
        case Kind.RESIZE:
            size = msgspec.json.decode(frame.payload, type=facts.TerminalSize)
            return facts.CommandInput(
                exec=context.exec, offset=frame.offset, size=0, data="", encoding=pack(b"").encoding, resize=size
            )
    return None


def _output(frame: Frame, context: Context, stream: facts.Stream, *, ended: bool) -> facts.CommandOutput:
    packed = pack(frame.payload)
    return facts.CommandOutput(
        exec=context.exec,
        stream=stream,
        offset=frame.offset,
        size=len(frame.payload),
        data=packed.data,
        encoding=packed.encoding,
        after_exit=ended,
    )


class _Note(NamedTuple):
    kind: str
    reason: str


def note(kind: str, reason: str) -> str:
    """What the keeper is to remember about why a command is being ended."""
    return f"{kind}:{reason}"


def _first_note(notes: tuple[str, ...]) -> _Note | None:
    return _Note(*notes[0].split(":", 1)) if notes and ":" in notes[0] else None


def _totals(totals: outcome.Totals) -> facts.Totals:
    return facts.Totals(stdin=totals.stdin, stdout=totals.stdout, stderr=totals.stderr, pty=totals.pty)


def _usage(usage: outcome.Rusage | None) -> facts.Usage:
    return (
        facts.Usage(user_s=usage.user_s, system_s=usage.sys_s, max_rss_kb=usage.max_rss_kb) if usage else facts.Usage()
    )


def was_killed(fact: Fact) -> TypeGuard[facts.CommandCompleted]:
    """By a SIGKILL that nobody asked us for. Docker tells it only as the shell does, 128 more than the signal."""
    return isinstance(fact, facts.CommandCompleted) and (
        fact.exit.signal == signal.SIGKILL or fact.exit.code == 128 + signal.SIGKILL
    )


def _ended(end: outcome.Exit, context: Context) -> Fact:
    status = facts.Exit(code=end.code, signal=end.signal, core=end.core)
    duration_ms = round(end.duration_s * 1000, 3)
    totals, usage, why = _totals(end.totals), _usage(end.rusage), _first_note(end.notes)
    if why is not None and why.kind == TIMED_OUT:
        return facts.CommandTimedOut(
            exec=context.exec,
            limit_ms=context.timeout_ms or 0,
            exit=status,
            duration_ms=duration_ms,
            totals=totals,
            usage=usage,
            cause=why.reason,
        )
    if why is not None and why.kind == CANCELLED:
        return facts.CommandCancelled(
            exec=context.exec, exit=status, duration_ms=duration_ms, totals=totals, usage=usage, cause=why.reason
        )
    return facts.CommandCompleted(
        exec=context.exec,
        exit=status,
        duration_ms=duration_ms,
        totals=totals,
        usage=usage,
        cause="exited" if end.signal is None else f"signal {end.signal}",
    )
