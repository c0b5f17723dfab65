"""Proof of completeness: for every command in a log, nothing is missing and nothing is there twice."""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from contracts.codec import decode_fact
from contracts.errors import Invalid
from contracts.events import command
from contracts.message import EventHead, Fact
from contracts.payload import unpack

TERMINAL = ("completed", "timed_out", "cancelled", "rejected", "lost")


class Fault(StrEnum):
    UNREADABLE = "unreadable"
    NOT_STARTED = "not_started"
    STARTED_TWICE = "started_twice"
    ENDED_TWICE = "ended_twice"
    BYTES_MISSING = "bytes_missing"
    BYTES_TWICE = "bytes_twice"
    WRONG_SIZE = "wrong_size"
    WRONG_TOTAL = "wrong_total"
    OUTPUT_AFTER_END = "output_after_end"


class Finding(NamedTuple):
    sequence: int
    sandbox: str
    exec: str
    fault: Fault
    detail: str


class Summary(NamedTuple):
    events: int
    commands: int
    ended: int
    open: tuple[str, ...]
    bytes: int
    findings: tuple[Finding, ...]


class _Track(msgspec.Struct):
    started: int = 0
    ended: str | None = None
    seen: dict[str, int] = {}


class Proof:
    """Feed every event of the sandboxes in question, in order of sequence; then ask for the summary."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[str, str], _Track] = {}
        self._findings: list[Finding] = []
        self._events = 0
        self._bytes = 0

    def feed(self, sequence: int, head: EventHead) -> None:
        self._events += 1
        if not head.type.startswith("command."):
            return
        try:
            fact = decode_fact(head)
        except Invalid as error:
            self._find(sequence, head, "", Fault.UNREADABLE, error.message)
            return
        if fact is not None:
            self._command(sequence, head, fact)

    def summary(self) -> Summary:
        still_open = tuple(exec_id for (_, exec_id), track in self._tracks.items() if track.ended is None)
        ended = len(self._tracks) - len(still_open)
        return Summary(self._events, len(self._tracks), ended, still_open, self._bytes, tuple(self._findings))

    def _find(self, sequence: int, head: EventHead, exec_id: str, fault: Fault, detail: str) -> None:
        self._findings.append(Finding(sequence, head.sandboxid, exec_id, fault, detail))

    def _command(self, sequence: int, head: EventHead, fact: Fact) -> None:
        exec_id: str = getattr(fact, "exec", "")
        track = self._tracks.setdefault((head.sandboxid, exec_id), _Track())
        kind = head.type.partition(".")[2]
        if isinstance(fact, command.CommandStarted):
            track.started += 1
            if track.started > 1:
                self._find(sequence, head, exec_id, Fault.STARTED_TWICE, "a second command.started")
        elif isinstance(fact, command.CommandOutput | command.CommandInput):
            self._chunk(sequence, head, track, fact)
        elif kind in TERMINAL:
            self._end(sequence, head, track, kind, fact)

    def _chunk(
        self,
        sequence: int,
        head: EventHead,
        track: _Track,
        fact: command.CommandOutput | command.CommandInput,
    ) -> None:
        stream = fact.stream.value if isinstance(fact, command.CommandOutput) else command.Stream.STDIN.value
        if not track.started:
            self._find(sequence, head, fact.exec, Fault.NOT_STARTED, f"{stream} before command.started")
        if track.ended and not getattr(fact, "after_exit", True):
            self._find(sequence, head, fact.exec, Fault.OUTPUT_AFTER_END, f"{stream} after command.{track.ended}")
        at = track.seen.get(stream, 0)
        if fact.offset != at:
            fault = Fault.BYTES_MISSING if fact.offset > at else Fault.BYTES_TWICE
            self._find(sequence, head, fact.exec, fault, f"{stream} goes on at {fact.offset}, expected {at}")
        size = self._size(sequence, head, fact)
        if size != fact.size:
            self._find(sequence, head, fact.exec, Fault.WRONG_SIZE, f"{stream} says {fact.size} bytes, has {size}")
        track.seen[stream] = fact.offset + size
        self._bytes += size

    def _size(self, sequence: int, head: EventHead, fact: command.CommandOutput | command.CommandInput) -> int:
        try:
            return len(unpack(fact.data, fact.encoding))
        except Invalid as error:
            self._find(sequence, head, fact.exec, Fault.UNREADABLE, error.message)
            return fact.size

    def _end(self, sequence: int, head: EventHead, track: _Track, kind: str, fact: Fact) -> None:
        exec_id: str = getattr(fact, "exec", "")
        if track.ended is not None:
            self._find(sequence, head, exec_id, Fault.ENDED_TWICE, f"{kind} after {track.ended}")
            return
        track.ended = kind
        if kind == "rejected":
            return
        if not track.started:
            self._find(sequence, head, exec_id, Fault.NOT_STARTED, f"{kind} without command.started")
        totals = getattr(fact, "totals", command.Totals())
        for stream in command.Stream:
            told, seen = getattr(totals, stream.value), track.seen.get(stream.value, 0)
            if told != seen:
                self._find(sequence, head, exec_id, Fault.WRONG_TOTAL, f"{stream} totals {told}, the log has {seen}")
