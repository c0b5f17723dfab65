"""A session as an asciicast, for asciinema and its players: version 3, and version 2 for those that are older."""

import codecs
import datetime
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.command import CommandCompleted, TerminalSize
from contracts.message import Fact
from contracts.screens import DEFAULT_SIZE
from contracts.tape import Frame, FrameKind, Tape
from infra.export.before import repainted, screen_before
from infra.export.commands import command_filters
from infra.export.jsonl import Progress, Span
from infra.export.sink import Sink
from infra.log.view import LogView
from infra.terminal.emulator import Emulator
from infra.terminal.harmless import Harmless

TERMINAL = "xterm-256color"
IDLE_LIMIT_S = 2.0
"""What a player is told to make of longer silences, where they are not shortened in the file."""
COMMANDS = 1000
"""That are being read, at most."""
MARKS = 1000
"""That wait for the first thing that is shown, at most."""
SEEN = ("command", "agent", "user", "network")
"""Families that a tape may show something of."""

_CODES = {FrameKind.OUTPUT: "o", FrameKind.INPUT: "i", FrameKind.RESIZE: "r", FrameKind.MARK: "m"}


class Cast(NamedTuple):
    events: int
    seconds: float
    """How long it plays."""


class _Shown(NamedTuple):
    time: datetime.datetime
    code: str
    data: str


class _Reading(NamedTuple):
    """What a command wrote, up to a place that may lie within a character, or within a sequence."""

    decoder: codecs.IncrementalDecoder
    harmless: Harmless


class _Texts:
    """Bytes of commands as text that no terminal does more with than show it."""

    def __init__(self) -> None:
        self._commands: OrderedDict[str, _Reading] = OrderedDict()

    def decode(self, exec_id: str, data: bytes) -> str:
        reading = self._commands.get(exec_id)
        if reading is None:
            reading = _Reading(codecs.getincrementaldecoder("utf-8")("replace"), Harmless())
            self._commands[exec_id] = reading
            if len(self._commands) > COMMANDS:
                self._commands.popitem(last=False)
        return reading.harmless.passed(reading.decoder.decode(data))


class CastWriter:
    """Writes the header with the first thing that is shown, since only then the terminal's size is known."""

    def __init__(self, sink: Sink, *, version: int, title: str, max_idle_s: float | None) -> None:
        self._sink = sink
        self._version = version
        self._title = title
        self._max_idle_s = max_idle_s
        self._size: TerminalSize = DEFAULT_SIZE
        self._waiting: list[_Shown] | None = []
        self._last: datetime.datetime | None = None
        self._clock_ms = 0
        self._rest_ms = 0.0
        self._texts = _Texts()
        self.events = 0

    @property
    def seconds(self) -> float:
        return self._clock_ms / 1000

    async def begin_with(self, before: Emulator, time: datetime.datetime) -> None:
        """What was on the screen already. Raises `OSError`."""
        self._size = TerminalSize(rows=before.rows, cols=before.cols)
        await self._show(_Shown(time, "o", repainted(before)), holds=True)

    async def frame(self, frame: Frame) -> None:
        """Raises `OSError`."""
        if frame.kind == FrameKind.RESIZE and frame.size is not None and self._waiting is not None:
            self._size = frame.size
            return
        data = self._data(frame)
        if data:
            await self._show(_Shown(frame.time, _CODES[frame.kind], data), holds=frame.kind != FrameKind.MARK)

    async def exit(self, time: datetime.datetime, code: int) -> None:
        """Of the one command that it shows."""
        if self._version >= 3:
            await self._show(_Shown(time, "x", str(code)), holds=True)

    async def finish(self, began: datetime.datetime) -> None:
        if self._waiting is not None:
            await self._begin(began)

    def _data(self, frame: Frame) -> str:
        match frame.kind:
            case FrameKind.MARK:
                return frame.label
            case FrameKind.RESIZE:
                return "" if frame.size is None else f"{frame.size.cols}x{frame.size.rows}"
            case FrameKind.INPUT:
                return frame.data.decode("utf-8", "replace")
            case FrameKind.OUTPUT:
                return self._texts.decode(frame.exec, frame.data)

    async def _show(self, shown: _Shown, *, holds: bool) -> None:
        if self._waiting is not None:
            self._waiting.append(shown)
            if holds or len(self._waiting) > MARKS:
                await self._begin(self._waiting[0].time)
            return
        await self._write(shown)

    async def _begin(self, began: datetime.datetime) -> None:
        waiting, self._waiting, self._last = self._waiting or [], None, began
        await self._sink.write(codec.encode(self._header(began)) + b"\n")
        for shown in waiting:
            await self._write(shown)

    def _header(self, began: datetime.datetime) -> dict[str, Any]:
        cols, rows = self._size.cols, self._size.rows
        size: dict[str, Any] = {"width": cols, "height": rows}
        if self._version >= 3:
            size = {"term": {"cols": cols, "rows": rows, "type": TERMINAL}}
        idle = IDLE_LIMIT_S if self._max_idle_s is None else self._max_idle_s
        return {
            "version": self._version,
            **size,
            "timestamp": int(began.timestamp()),
            "idle_time_limit": idle,
            "title": self._title,
            "env": {"TERM": TERMINAL},
        }

    async def _write(self, shown: _Shown) -> None:
        passed = self._pass(shown.time)
        at = passed if self._version >= 3 else self._clock_ms
        await self._sink.write(codec.encode([at / 1000, shown.code, shown.data]) + b"\n")
        self.events += 1

    def _pass(self, time: datetime.datetime) -> int:
        """Milliseconds since the one before. Clocks of several services tell the times: it never goes back."""
        last = self._last or time
        passed_s = max((time - last).total_seconds(), 0.0)
        self._last = max(last, time)
        if self._max_idle_s is not None:
            passed_s = min(passed_s, self._max_idle_s)
        # What is rounded off is kept, or many small steps would make a long recording too short.
        exact = passed_s * 1000 + self._rest_ms
        self._rest_ms = exact - int(exact)
        self._clock_ms += int(exact)
        return int(exact)


async def write_cast(
    view: LogView,
    sink: Sink,
    span: Span,
    *,
    sandbox: str,
    exec_id: str | None = None,
    version: int = 3,
    max_idle_s: float | None = None,
    progress: Progress = lambda _done, _whole: None,
) -> Cast:
    """What the terminal of a sandbox, or of one of its commands, has shown. Memory does not grow with it.

    It begins with what was on the screen by then. `max_idle_s` shortens longer silences in the file itself.
    Raises `Invalid` for a command that is not there, `Unavailable`, `OSError`.
    """
    filters = subjects.typed(sandbox, SEEN) if exec_id is None else await command_filters(view, sandbox, exec_id)
    title = sandbox if exec_id is None else f"{sandbox} {exec_id}"
    writer = CastWriter(sink, version=version, title=title, max_idle_s=max_idle_s)
    tape, began = Tape(exec_id), None
    before = await screen_before(view, filters, span.first, tape)
    async for time, sequence, frames, fact in _frames(view, filters, span, tape):
        if began is None and before is not None:
            await writer.begin_with(before, time)
        began = began or time
        for frame in frames:
            await writer.frame(frame)
        if exec_id is not None and isinstance(fact, CommandCompleted):
            await writer.exit(time, _code(fact))
        progress(sequence - span.first + 1, span.last - span.first + 1)
    await writer.finish(began or datetime.datetime.fromtimestamp(0, datetime.UTC))
    return Cast(writer.events, writer.seconds)


class _Played(NamedTuple):
    time: datetime.datetime
    sequence: int
    frames: list[Frame]
    fact: Fact | None


async def _frames(view: LogView, filters: list[str], span: Span, tape: Tape) -> AsyncIterator[_Played]:
    async for entry in view.read(filters, span.first, end=span.last):
        try:
            head = codec.decode_head(entry.data)
            fact = codec.decode_fact(head)
        except Invalid:
            continue
        yield _Played(head.time, entry.seq, tape.feed(entry.seq, head, fact), fact)


def _code(fact: CommandCompleted) -> int:
    """As a shell tells it."""
    if fact.exit.signal is not None:
        return 128 + fact.exit.signal
    return fact.exit.code or 0
