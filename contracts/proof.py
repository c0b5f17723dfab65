"""Proof of completeness: for every command in a log, nothing is missing and nothing is there twice."""

from collections import OrderedDict
from enum import StrEnum
from typing import NamedTuple

import msgspec

from contracts.codec import decode_fact
from contracts.ended import Ended
from contracts.errors import Invalid
from contracts.events import command
from contracts.message import EventHead, Fact
from contracts.payload import Encoding, unpack

TERMINAL = ("completed", "timed_out", "cancelled", "rejected", "lost")
MOST_FINDINGS = 1000
"""That are kept; the others are counted."""
MOST_CHARACTERS = 500
"""Of what is said about one: it may quote a message of any size."""
MOST_OFFSET = 2**63
"""Whatever a message claims: a number of thousands of digits cannot even be told."""
RECENT = 10_000
"""Of so many commands that ended last it is known how far they wrote: what a background process of an older one writes
is taken to go on where it says."""
_CHUNKS = (command.CommandOutput, command.CommandInput)
_STDIN = command.Stream.STDIN.value


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
    more: int = 0
    """How many findings there are besides."""


class _Track(msgspec.Struct):
    started: int = 0
    ended: str | None = None
    seen: dict[str, int] = {}
    partial: bool = False
    """Its beginning is not on record: what it wrote first is taken to go on where it says."""


Name = tuple[str, str]
"""The sandbox and the exec."""


class Proof:
    """Feed every event of the sandboxes in question, in order of sequence; then ask for the summary.

    `partial`: the log was cut at its beginning, so commands may go on that nobody saw start. Commands that run are held
    in memory; of those that ended, 16 bytes.
    """

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self._tracks: dict[Name, _Track] = {}
        self._recent: OrderedDict[Name, _Track] = OrderedDict()
        self._ended = Ended()
        self._findings: list[Finding] = []
        self._more = 0
        self._events = 0
        self._bytes = 0

    def feed(self, sequence: int, head: EventHead) -> None:
        self._events += 1
        if not head.type.startswith("command."):
            return
        try:
            fact = decode_fact(head)
        except Invalid as error:
            self.find(sequence, head.sandboxid, "", Fault.UNREADABLE, error.message)
            return
        if fact is not None:
            self.tell(sequence, head.sandboxid, head.type.partition(".")[2], fact)

    def summary(self) -> Summary:
        still_open = tuple(exec_id for _, exec_id in self._tracks)
        ended = len(self._recent) + len(self._ended)
        return Summary(
            self._events,
            ended + len(still_open),
            ended,
            still_open,
            self._bytes,
            tuple(self._findings),
            self._more,
        )

    def find(self, sequence: int, sandbox: str, exec_id: str, fault: Fault, detail: str) -> None:
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(Finding(sequence, sandbox, exec_id, fault, detail[:MOST_CHARACTERS]))
        else:
            self._more += 1

    def tell(self, sequence: int, sandbox: str, kind: str, fact: Fact) -> None:
        """A fact about a command: `command.<kind>`."""
        name = (sandbox, getattr(fact, "exec", ""))
        track = self._tracks.get(name) or self._other(name, is_start=kind == "started")
        if isinstance(fact, _CHUNKS):
            self._chunk(sequence, name, track, fact)
        elif isinstance(fact, command.CommandStarted):
            track.started += 1
            if track.started > 1:
                self.find(sequence, *name, Fault.STARTED_TWICE, "a second command.started")
        elif kind in TERMINAL:
            self._end(sequence, name, track, kind, fact)

    def _other(self, name: Name, *, is_start: bool) -> _Track:
        """Of a command that is not running as far as is known."""
        if (recent := self._recent.get(name)) is not None:
            return recent
        if name in self._ended:
            return _Track(started=1, ended="its end", partial=True)
        track = self._tracks[name] = _Track(partial=self.partial and not is_start)
        return track

    def _chunk(
        self, sequence: int, name: Name, track: _Track, fact: command.CommandOutput | command.CommandInput
    ) -> None:
        stream = fact.stream._value_ if isinstance(fact, command.CommandOutput) else _STDIN
        is_ascii = fact.encoding is Encoding.UTF8 and fact.data.isascii()
        size = len(fact.data) if is_ascii else self._size(sequence, name, fact)
        at = track.seen.get(stream, fact.offset if track.partial else 0)
        # Nearly all of a log is output, and nearly all of that is right.
        if not track.started or track.ended or fact.offset != at or size != fact.size:
            self._doubtful(sequence, name, track, fact, stream, at, size)
        track.seen[stream] = min(fact.offset, MOST_OFFSET) + size
        self._bytes += size

    def _doubtful(
        self,
        sequence: int,
        name: Name,
        track: _Track,
        fact: command.CommandOutput | command.CommandInput,
        stream: str,
        at: int,
        size: int,
    ) -> None:
        if not track.started and not track.partial:
            self.find(sequence, *name, Fault.NOT_STARTED, f"{stream} before command.started")
        if track.ended and not getattr(fact, "after_exit", True):
            self.find(sequence, *name, Fault.OUTPUT_AFTER_END, f"{stream} after command.{track.ended}")
        if fact.offset != at:
            fault = Fault.BYTES_MISSING if fact.offset > at else Fault.BYTES_TWICE
            self.find(sequence, *name, fault, f"{stream} goes on at {fact.offset}, expected {at}")
        if size != fact.size:
            self.find(sequence, *name, Fault.WRONG_SIZE, f"{stream} says {fact.size} bytes, has {size}")

    def _size(self, sequence: int, name: Name, fact: command.CommandOutput | command.CommandInput) -> int:
        try:
            return len(unpack(fact.data, fact.encoding))
        except Invalid as error:
            self.find(sequence, *name, Fault.UNREADABLE, error.message)
            return min(fact.size, MOST_OFFSET)

    def _end(self, sequence: int, name: Name, track: _Track, kind: str, fact: Fact) -> None:
        if track.ended is not None:
            self.find(sequence, *name, Fault.ENDED_TWICE, f"{kind} after {track.ended}")
            return
        track.ended = kind
        self._settle(name, track)
        if kind == "rejected":
            return
        if not track.started and not track.partial:
            self.find(sequence, *name, Fault.NOT_STARTED, f"{kind} without command.started")
        totals = getattr(fact, "totals", command.Totals())
        for stream in command.Stream:
            told = getattr(totals, stream.value)
            seen = track.seen.get(stream.value, told if track.partial else 0)
            if told != seen:
                self.find(sequence, *name, Fault.WRONG_TOTAL, f"{stream} totals {told}, the log has {seen}")

    def _settle(self, name: Name, track: _Track) -> None:
        self._tracks.pop(name, None)
        self._recent[name] = track
        if len(self._recent) > RECENT:
            self._ended.add(self._recent.popitem(last=False)[0])
