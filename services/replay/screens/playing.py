"""The events of one command, played to a terminal."""

from collections.abc import Iterable

from contracts import codec
from contracts.errors import Invalid
from contracts.events import command
from contracts.events.command import Stream
from contracts.payload import unpack
from contracts.screens import DEFAULT_SIZE
from infra.bus.page import Entry
from infra.terminal.emulator import Emulator

ENDS = (
    command.CommandCompleted,
    command.CommandTimedOut,
    command.CommandCancelled,
    command.CommandRejected,
    command.CommandLost,
)


class Played:
    """How it stands after the events that were played so far."""

    def __init__(self, emulator: Emulator | None = None) -> None:
        self.emulator = emulator or Emulator(DEFAULT_SIZE.cols, DEFAULT_SIZE.rows)
        self.pty = False
        self.bytes = 0
        self.began = False
        self.ended = False

    def play(self, entries: Iterable[Entry]) -> None:
        """Heavy: not for the event loop. What cannot be read is passed over."""
        for entry in entries:
            try:
                fact = codec.decode_fact(codec.decode_head(entry.data))
                if isinstance(fact, command.CommandOutput):
                    self._output(unpack(fact.data, fact.encoding), fact.stream)
            except Invalid:
                continue
            if isinstance(fact, command.CommandStarted):
                self._start(fact)
            elif isinstance(fact, command.CommandInput) and fact.resize is not None:
                self.emulator.resize(fact.resize.cols, fact.resize.rows)
            elif isinstance(fact, ENDS):
                self.ended = True

    def _start(self, fact: command.CommandStarted) -> None:
        self.began = True
        if fact.pty is not None:
            self.pty = True
            self.emulator.resize(fact.pty.cols, fact.pty.rows)

    def _output(self, data: bytes, stream: Stream) -> None:
        self.began = True
        self.pty = self.pty or stream == Stream.PTY
        self.bytes += len(data)
        self.emulator.feed(data if stream == Stream.PTY else data.replace(b"\n", b"\r\n"))
