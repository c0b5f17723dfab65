"""One running command: from its launch to the last byte of its record."""

import asyncio
import os
import time

from contracts.errors import Conflict, Invalid
from infra.keeper.frame import MAX_PAYLOAD, Kind
from infra.keeper.framer import incomplete_tail
from infra.keeper.launch import Ending, Launched, LaunchFailed, SandboxGone, SandboxSilent, Way
from infra.keeper.once import Once
from infra.keeper.outcome import Exit, Failed, Lost, encode
from infra.keeper.outcome import Resize as Resized
from infra.keeper.protocol import Resize, Signal, Start, Write, Written
from infra.keeper.record import Record
from infra.keeper.stdin_feed import Piece, StdinFeed
from infra.keeper.stdio import NO_PIPES, Stdio, open_pipes
from infra.keeper.streams import Streams

QUIET_AFTER_EXIT_S = 0.2
NOTES_KEPT = 8
"""They must fit into the frame of the exit, however often somebody asks."""


class Execution:
    def __init__(self, record: Record, start: Start, way: asyncio.Task[Way], backlog_limit: int) -> None:
        self._record = record
        self._start = start
        self._way = way
        self._streams = Streams(record, backlog_limit)
        self._stdin = StdinFeed(record, None, terminal=False)
        self._launched: Launched | None = None
        self._began_at = 0.0
        self._resizing = asyncio.Lock()
        self._signalled = Once()
        self._sending: dict[str, asyncio.Task[int]] = {}
        """By their orders, the signals that the sandbox has not answered yet."""
        self.attempted = asyncio.Event()
        """Set once the command runs, or its failure to start is on the record."""

    async def run(self) -> None:
        """Ends when the record is final. Cancelled, it leaves the record open and the command to be killed."""
        try:
            self._launched = await self._launch()
        except LaunchFailed as error:
            self._streams.put(Kind.FAILED, encode(Failed(code=error.code, message=error.message)))
            self._streams.put(Kind.CLOSED)
            await self._streams.written()
        except SandboxSilent as silent:
            self._streams.put(Kind.LOST, encode(Lost(cause=silent.cause, totals=self._record.totals)))
            self._streams.put(Kind.CLOSED)
            await self._streams.written()
        else:
            await self._hold(self._launched)
        finally:
            self.attempted.set()

    async def _launch(self) -> Launched:
        way = await self._way
        try:
            stdio = NO_PIPES if self._start.pty else open_pipes(stdin=self._start.stdin)
        except OSError as error:
            way.close()
            raise LaunchFailed("FAILED", f"no descriptors left: {error}") from error
        try:
            launched = await way.launch(self._start, stdio.inside)
        except BaseException:
            stdio.close_outside()
            raise
        finally:
            stdio.close_inside()
        self._attach(launched, stdio)
        return launched

    def _attach(self, launched: Launched, stdio: Stdio) -> None:
        self._began_at = time.monotonic()
        self._record.began = True
        if launched.master is not None:
            # Its own descriptor, for it ends at another moment than the reading.
            self._stdin = StdinFeed(self._record, os.dup(launched.master), terminal=True)
            self._streams.begin({Kind.PTY: launched.master})
        else:
            self._streams.begin(stdio.output)
            self._stdin = StdinFeed(self._record, stdio.stdin, terminal=False)

    async def _hold(self, launched: Launched) -> None:
        self.attempted.set()
        try:
            try:
                ending = await launched.ended()
            except SandboxGone as gone:
                await self._end_lost(gone.cause)
            else:
                await self._end(ending)
                await self._background(launched)
            self._streams.put(Kind.CLOSED)
            await self._streams.written()
        finally:
            self._let_go(launched)

    async def _end(self, ending: Ending) -> None:
        duration = time.monotonic() - self._began_at
        await self._streams.settle(QUIET_AFTER_EXIT_S)
        self._stdin.close()
        code, signal, core, rusage = ending
        outcome = Exit(
            code=code,
            signal=signal,
            core=core,
            duration_s=duration,
            rusage=rusage,
            totals=self._record.totals,
            notes=tuple(self._record.notes),
        )
        self._streams.put(Kind.EXIT, encode(outcome))

    async def _end_lost(self, cause: str) -> None:
        await self._streams.settle(QUIET_AFTER_EXIT_S)
        self._stdin.close()
        self._streams.put(Kind.LOST, encode(Lost(cause=cause, totals=self._record.totals)))
        self._streams.stop_reading()

    async def _background(self, launched: Launched) -> None:
        """Children that outlive the command stay on the record until they close its streams."""
        answering = asyncio.create_task(launched.answer_signals())
        try:
            await self._streams.ended.wait()
            # A kill is seen here as the end of the streams before its answer comes.
            await launched.signals_answered()
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    def _let_go(self, launched: Launched) -> None:
        self._stdin.close()
        self._streams.close()
        launched.close()
        self._launched = None

    def write(self, request: Write) -> Written:
        total = self._record.totals.stdin
        if not self._record.began:
            return Written(accepted=False, offset=total, reason="busy")
        if not self._start.stdin and not self._start.pty:
            return Written(accepted=False, offset=total, reason="no_stdin")
        refused = self._stdin.refusal(total, request.data, request.offset, request.write_id)
        if refused is not None:
            return refused
        if self._record.exited or self._launched is None:
            return written_after_end(total, request)
        new = request.data if request.offset is None else request.data[total - request.offset :]
        for piece in _pieces(new):
            if not self._streams.put_at_once(Kind.STDIN, piece):
                return Written(accepted=False, offset=self._record.totals.stdin, reason="full")
            self._stdin.push(Piece(self._record.size - len(piece), len(piece)))
        self._stdin.remember(request.write_id)
        if request.eof:
            self._streams.put(Kind.STDIN_EOF)
            self._stdin.end()
        return Written(accepted=True, offset=total + len(new))

    async def signal(self, request: Signal) -> int:
        """How many processes got it: 0 when none is left, and for an order that was carried out before.

        Raises `Conflict` when the sandbox does not answer in time. The signal is on its way then, and the same order
        given again only waits on.
        """
        await self.attempted.wait()
        if self._launched is None or request.order in self._signalled:
            return 0
        sending = self._sending.get(request.order or "")
        if sending is None:
            if request.note is not None and len(self._record.notes) < NOTES_KEPT:
                self._record.notes.append(request.note)
            sending = asyncio.create_task(self._send(self._launched, request))
            if request.order is not None:
                self._sending[request.order] = sending
        done, _ = await asyncio.wait({sending}, timeout=self._launched.answers_within_s)
        if not done:
            raise Conflict("the sandbox does not answer: is it paused?")
        return sending.result()

    async def _send(self, launched: Launched, request: Signal) -> int:
        try:
            count = await launched.signal(request.signum, request.scope)
        except SandboxGone:
            return 0
        else:
            self._signalled.add(request.order)
            return count
        finally:
            self._sending.pop(request.order or "", None)

    async def resize(self, request: Resize) -> None:
        """One after the other, as they come. Raises `Invalid` where there is no terminal, or none any more."""
        async with self._resizing:
            if self._launched is None or self._streams.descriptor(Kind.PTY) is None:
                raise Invalid(f"{self._record.exec_id} has no terminal")
            await self._launched.resize(request.rows, request.cols)
            if self._record.final:
                raise Invalid(f"{self._record.exec_id} has ended")
            self._streams.put(Kind.RESIZE, encode(Resized(rows=request.rows, cols=request.cols)))

    def resume(self) -> None:
        self._streams.resume()


def written_after_end(total: int, request: Write) -> Written:
    """What the record has already is accepted as ever; anything new comes too late."""
    if request.offset is not None and request.offset + len(request.data) <= total:
        return Written(accepted=True, offset=total)
    return Written(accepted=False, offset=total, reason="ended")


def _pieces(data: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    while data:
        piece = data[:MAX_PAYLOAD]
        size = len(piece) - (incomplete_tail(piece) if len(data) > len(piece) else 0)
        pieces.append(data[:size])
        data = data[size:]
    return pieces
