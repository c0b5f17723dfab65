"""Commands in the story of a sandbox: one item each, unless something else comes before their end."""

from contracts.askers import asker as named
from contracts.commands.command import Asker
from contracts.errors import Invalid
from contracts.events import command
from contracts.message import EventHead, Fact, Time
from contracts.payload import unpack
from services.cli.showing_items import Begun, Excerpt, Item, Ran, Written
from services.cli.showing_output import Capture, Lines

MOST_OPEN = 1000
"""Commands that run at the same time; of the others only the end is told."""


class _Open:
    def __init__(self, sequence: int, at: Time, argv: tuple[str, ...], asker: str, by: str = "") -> None:
        self.sequence = sequence
        self.at = at
        self.argv = argv
        self.asker = asker
        self.by = by
        self.bytes = 0
        self.begun = False
        self.lines: dict[str, Lines] = {}
        self.capture = Capture()


class Commands:
    """`full`: every line that they write, as it comes."""

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._open: dict[str, _Open] = {}
        self._processes: set[str] = set()

    def feed(self, sequence: int, head: EventHead, fact: Fact) -> list[Item]:
        match fact:
            case command.CommandStarted():
                return self._begin(sequence, head, fact)
            case command.CommandOutput():
                return self._write(sequence, head, fact)
            case command.CommandInput():
                return []
        return self._end(sequence, head, fact)

    def is_process_of_an_agent(self, exec_id: str) -> None:
        """What goes through it is the agent's own talk with its runtime, and is told as that."""
        if len(self._processes) < MOST_OPEN:
            self._processes.add(exec_id)

    def begun(self) -> list[Item]:
        """Those that run, before something else is told."""
        if self._full:
            return []
        return [
            self._told(exec_id, each)
            for exec_id, each in self._open.items()
            if not each.begun and each.asker != Asker.AGENT
        ]

    def rest(self) -> list[Item]:
        """Those whose end is not told."""
        return [
            self._ran(exec_id, each, "running", each.sequence, each.at)
            for exec_id, each in self._open.items()
            if self._is_shown(exec_id)
        ]

    def _is_shown(self, exec_id: str) -> bool:
        return self._full or exec_id not in self._processes

    def _told(self, exec_id: str, each: _Open) -> Begun:
        each.begun = True
        return Begun(sequence=each.sequence, at=each.at, exec=exec_id, argv=each.argv, asker=each.asker, by=each.by)

    def _begin(self, sequence: int, head: EventHead, fact: command.CommandStarted) -> list[Item]:
        known = self._known(fact.exec, sequence, head.time, fact.argv, fact.asker, named(fact.by))
        return [self._told(fact.exec, known)] if known is not None and self._full else []

    def _known(
        self, exec_id: str, sequence: int, at: Time, argv: tuple[str, ...] = (), asker: str = "", by: str = ""
    ) -> _Open | None:
        if exec_id not in self._open:
            if len(self._open) >= MOST_OPEN:
                return None
            self._open[exec_id] = _Open(sequence, at, argv, asker, by)
        return self._open[exec_id]

    def _write(self, sequence: int, head: EventHead, fact: command.CommandOutput) -> list[Item]:
        known = self._known(fact.exec, sequence, head.time)
        if known is None or not self._is_shown(fact.exec):
            return []
        known.bytes += fact.size
        try:
            text = unpack(fact.data, fact.encoding).decode("utf-8", "replace")
        except Invalid:
            return []
        reading = known.lines.setdefault(fact.stream, Lines())
        if not self._full:
            known.capture.skim(reading.skim(text))
            return []
        lines = tuple(reading.feed(text))
        return [Written(sequence=sequence, at=head.time, exec=fact.exec, lines=lines)] if lines else []

    def _end(self, sequence: int, head: EventHead, fact: Fact) -> list[Item]:
        exec_id: str = getattr(fact, "exec", "")
        known = self._open.pop(exec_id, None) or _Open(sequence, head.time, (), "")
        if not self._is_shown(exec_id):
            return []
        ended = getattr(fact, "exit", None)
        failure = fact.failure.message if isinstance(fact, command.CommandRejected) else ""
        return [
            *self._left(sequence, head, exec_id, known),
            self._ran(
                exec_id,
                known,
                head.type.partition(".")[2],
                sequence,
                head.time,
                code=None if ended is None else ended.code,
                signal=None if ended is None else ended.signal,
                cause=failure or getattr(fact, "cause", ""),
                duration_ms=getattr(fact, "duration_ms", None),
            ),
        ]

    def _left(self, sequence: int, head: EventHead, exec_id: str, known: _Open) -> list[Item]:
        """What no line break ended."""
        rest = [line for each in known.lines.values() for line in each.rest()]
        known.capture.add(rest)
        if not (self._full and rest):
            return []
        return [Written(sequence=sequence, at=head.time, exec=exec_id, lines=tuple(rest))]

    def _ran(
        self,
        exec_id: str,
        known: _Open,
        outcome: str,
        last: int,
        ended_at: Time,
        *,
        code: int | None = None,
        signal: int | None = None,
        cause: str = "",
        duration_ms: float | None = None,
    ) -> Ran:
        return Ran(
            sequence=known.sequence,
            at=known.at,
            exec=exec_id,
            argv=known.argv,
            asker=known.asker,
            by=known.by,
            outcome=outcome,
            code=code,
            signal=signal,
            cause=cause,
            duration_ms=duration_ms,
            bytes=known.bytes,
            # What an agent's command wrote is the result of its call.
            output=Excerpt() if self._full or known.asker == Asker.AGENT else known.capture.excerpt(),
            was_begun=known.begun,
            last_sequence=last,
            ended_at=ended_at,
        )
