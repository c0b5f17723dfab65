"""A sandbox's events as what one terminal would have shown: pure, so that every player and every export agree."""

import re
import shlex
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from contracts.errors import Invalid
from contracts.events import agent, network
from contracts.events import command as commands
from contracts.events.command import Stream, TerminalSize
from contracts.message import EventHead, Fact
from contracts.payload import unpack
from contracts.screens import DEFAULT_SIZE, bounded

LABEL = 200
"""Characters of a label."""
HEADER = 1000
"""Characters of the line that shows what is run."""
REMEMBERED = 10_000
"""Commands that began and have not ended, at most: a log can name any number."""

_SHELLS = ("sh", "/bin/sh", "bash", "/bin/bash")
_SPLIT = 32
"""A sequence that switches screens is shorter."""
_SWITCH = re.compile(rb"\x1b\[\?(?:47|1047|1049)([hl])")
_STYLE_AT_END = re.compile(rb"(?:\x1b\[[0-9;:?]*[a-zA-Z])+\Z")
_SOFT_RESET = b"\x1b7\x1b[r\x1b8\x1b[0m\x1b(B\x0f\x1b[4;20l\x1b[?7h\x1b[?25h"
"""Margins (which would move the cursor), style, character set, insert mode, new lines, wrapping, the cursor's sight."""


class FrameKind(StrEnum):
    OUTPUT = "output"
    INPUT = "input"
    RESIZE = "resize"
    MARK = "mark"


class Frame(NamedTuple):
    sequence: int
    """Of the event that it comes from."""
    time: datetime
    kind: FrameKind
    exec: str
    """Empty where it belongs to no command."""
    data: bytes = b""
    """OUTPUT: bytes for a terminal, as hostile as the program that wrote them. INPUT: what was typed."""
    size: TerminalSize | None = None
    """RESIZE, within the bounds of `contracts.screens`."""
    label: str = ""
    """MARK: one printable line."""


class _Playing:
    """A command that began."""

    def __init__(self, pty: bool) -> None:
        self.pty = pty
        self.alternate = False
        self._tail = b""

    def watch(self, data: bytes) -> None:
        """Notices which screen it uses, also where the sequence is split between two outputs."""
        seen = self._tail + data
        for found in _SWITCH.finditer(seen):
            self.alternate = found[1] == b"h"
        escape = seen.rfind(b"\x1b", max(len(seen) - _SPLIT, 0))
        self._tail = seen[escape:] if escape >= 0 and _SWITCH.match(seen, escape) is None else b""


class Tape:
    """All commands of a sandbox on one terminal, or one of them. Feed it the events in the order of the log."""

    def __init__(self, exec: str | None = None) -> None:  # noqa: A002
        self._exec = exec
        self._playing: OrderedDict[str, _Playing] = OrderedDict()
        self._size = DEFAULT_SIZE
        self._end = b""
        """The end of what was put out last."""

    def feed(self, sequence: int, head: EventHead, fact: Fact | None) -> list[Frame]:
        """What the event adds, in order; nothing for what a terminal does not show, or cannot be read."""
        about = getattr(fact, "exec", None)
        if self._exec is not None and about != self._exec:
            return []
        blank = Frame(sequence, head.time, FrameKind.OUTPUT, about if isinstance(about, str) else "")
        try:
            return list(self._frames(blank, fact))
        except Invalid:
            return []

    def _frames(self, blank: Frame, fact: Fact | None) -> Iterator[Frame]:
        match fact:
            case commands.CommandStarted():
                yield from self._started(blank, fact)
            case commands.CommandOutput():
                yield self._shown(blank, self._output(fact))
            case commands.CommandInput():
                yield from self._input(blank, fact)
            case (
                commands.CommandCompleted()
                | commands.CommandTimedOut()
                | commands.CommandCancelled()
                | commands.CommandRejected()
                | commands.CommandLost()
            ):
                yield from self._ended(blank, fact)
            case _ if label := _said(fact):
                yield _mark(blank, label)

    def _started(self, blank: Frame, fact: commands.CommandStarted) -> Iterator[Frame]:
        line = command_line(fact.argv)
        self._playing[fact.exec] = _Playing(fact.pty is not None)
        if len(self._playing) > REMEMBERED:
            self._playing.popitem(last=False)
        yield _mark(blank, f"$ {line}")
        yield from self._resized(blank, DEFAULT_SIZE if fact.pty is None else fact.pty)
        shown = visible(line, HEADER).encode("utf-8", "replace")
        yield self._shown(blank, self._fresh_line() + b"\x1b[0m\x1b[1m$ " + shown + b"\x1b[0m\r\n")

    def _output(self, fact: commands.CommandOutput) -> bytes:
        data = unpack(fact.data, fact.encoding)
        if fact.stream != Stream.PTY:
            return data.replace(b"\n", b"\r\n")
        if (playing := self._playing.get(fact.exec)) is not None:
            playing.watch(data)
        return data

    def _input(self, blank: Frame, fact: commands.CommandInput) -> Iterator[Frame]:
        if fact.resize is not None:
            yield from self._resized(blank, fact.resize)
        elif data := unpack(fact.data, fact.encoding):
            yield blank._replace(kind=FrameKind.INPUT, data=data)

    def _ended(self, blank: Frame, fact: "Ended") -> Iterator[Frame]:
        playing = self._playing.pop(blank.exec, None)
        if playing is not None and playing.pty:
            yield blank._replace(data=(b"\x1b[?1049l" if playing.alternate else b"") + _SOFT_RESET)
        words = visible(_ending(fact), LABEL).encode("utf-8", "replace")
        yield self._shown(blank, self._fresh_line() + b"\x1b[0m\x1b[2m[" + words + b"]\x1b[0m\r\n")
        yield _mark(blank, _verdict(fact))

    def _resized(self, blank: Frame, wanted: TerminalSize) -> Iterator[Frame]:
        size = bounded(wanted)
        if size != self._size:
            self._size = size
            yield blank._replace(kind=FrameKind.RESIZE, size=size)

    def _shown(self, blank: Frame, data: bytes) -> Frame:
        self._end = (self._end + data)[-_SPLIT:] if len(data) < _SPLIT else data[-_SPLIT:]
        return blank._replace(data=data)

    def _fresh_line(self) -> bytes:
        return b"" if not self._end or _STYLE_AT_END.sub(b"", self._end).endswith(b"\n") else b"\r\n"


Ended = (
    commands.CommandCompleted
    | commands.CommandTimedOut
    | commands.CommandCancelled
    | commands.CommandRejected
    | commands.CommandLost
)


def visible(text: str, most: int) -> str:
    """One line in which nothing can move a cursor, colour or turn text around; cut to `most` characters."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in cut)


def command_line(argv: Sequence[str]) -> str:
    """As a person would type it: what a shell was given, or the words with the quotes that they need."""
    if len(argv) == 3 and argv[0] in _SHELLS and argv[1] == "-c":
        return argv[2]
    return shlex.join(argv)


def _mark(blank: Frame, label: str) -> Frame:
    return blank._replace(kind=FrameKind.MARK, label=visible(label, LABEL))


def _said(fact: Fact | None) -> str:
    match fact:
        case agent.AgentStarted():
            return f"prompt: {fact.prompt}"
        case agent.AgentMessage() if not fact.partial:
            return f"agent: {fact.text}"
        case agent.AgentToolUse():
            return f"tool: {fact.tool}"
        case agent.AgentApprovalRequested():
            return f"asks: {fact.tool}"
        case agent.AgentApproved():
            return f"approved by {fact.by}"
        case agent.AgentRejected():
            return f"rejected by {fact.by}"
        case network.NetworkAsked():
            return f"asks: network {fact.host}"
        case agent.UserMessage() | agent.UserGuidance():
            return f"user: {fact.text}"
        case agent.UserInterrupt():
            return f"interrupt: {fact.reason}"
        case _:
            return ""


def _ending(fact: Ended) -> str:
    match fact:
        case commands.CommandCompleted(exit=ended) if ended.signal is not None:
            return f"Process ended by signal {ended.signal} in {fact.duration_ms:.0f}ms"
        case commands.CommandCompleted():
            return f"Process exited with code {fact.exit.code} in {fact.duration_ms:.0f}ms"
        case commands.CommandTimedOut():
            return f"Process ended at its time limit of {fact.limit_ms}ms"
        case commands.CommandCancelled():
            return f"Process cancelled in {fact.duration_ms:.0f}ms: {fact.cause}"
        case commands.CommandRejected():
            return f"Process not run: {fact.cause}"
        case commands.CommandLost():
            return f"Process lost: {fact.cause}"


def _verdict(fact: Ended) -> str:
    match fact:
        case commands.CommandCompleted(exit=ended) if ended.signal is not None:
            return f"signal {ended.signal}"
        case commands.CommandCompleted():
            return f"exit {fact.exit.code}"
        case commands.CommandTimedOut():
            return "timed out"
        case commands.CommandCancelled():
            return "cancelled"
        case commands.CommandRejected():
            return "rejected"
        case commands.CommandLost():
            return "lost"
