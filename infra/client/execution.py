"""A command in a sandbox, followed through the log."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from msgspec import Struct

from contracts import codec, subjects
from contracts.commands.command import InputCommand, ResizeCommand, Scope, SignalCommand
from contracts.errors import ClocheError, Failure, from_failure
from contracts.events import command as facts
from contracts.message import Fact
from contracts.payload import pack, unpack
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.live import Live
from infra.client.orders import publish, raise_if_given_up

SHELL_TIMED_OUT = 124
SHELL_LOST = 125
SHELL_SIGNAL = 128
SHELL_REFUSED = {"NOT_FOUND": 127, "NOT_EXECUTABLE": 126}
INPUT_CHUNK = 48 * 1024


class Chunk(NamedTuple):
    """A piece of output, and the sequence to continue from after it."""

    stream: facts.Stream
    data: bytes
    sequence: int


class CommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended. A failed command is a result, not an exception."""

    exec: str
    outcome: str
    """completed, timed_out, cancelled, rejected or lost."""
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    duration_ms: float = 0
    stdout: bytes = b""
    stderr: bytes = b""
    failure: Failure | None = None
    """Why it was rejected."""
    sequence: int = 0

    @property
    def timed_out(self) -> bool:
        return self.outcome == "timed_out"

    @property
    def shell_code(self) -> int:
        """As a shell would show it.

        128+n for a signal, 124 for a time-out, 127 for no such program, 126 for one that cannot be run, 125 for any
        other command without an exit status.
        """
        if self.timed_out:
            return SHELL_TIMED_OUT
        if self.failure is not None:
            return SHELL_REFUSED.get(self.failure.details.get("reason", ""), SHELL_LOST)
        if self.signal is not None:
            return SHELL_SIGNAL + self.signal
        return SHELL_LOST if self.exit_code is None else self.exit_code

    @property
    def may_be_killed(self) -> bool:
        """Whether a signal ended it, or may have: a container engine tells that as a shell does, as 128+n."""
        return self.outcome == "cancelled" or self.shell_code > SHELL_SIGNAL


class Execution:
    """One command. Every read starts at a cursor, so it may be followed again, late, or by somebody else."""

    def __init__(
        self,
        bus: Bus,
        *,
        node: str,
        sandbox: str,
        exec_id: str,
        start: int = 1,
        written: int | None = None,
        tap: Live | None = None,
    ) -> None:
        self._bus = bus
        self._node = node
        self.sandbox = sandbox
        self.id = exec_id
        self._start = start
        self._tap = tap
        self._written = written
        """Bytes that went to stdin; None where others may have written, and what comes goes to the end."""
        self.result: CommandResult | None = None
        """Set once the terminal event was seen."""

    async def output(self, start: int | None = None, *, trailing: bool = False) -> AsyncIterator[Chunk]:
        """What it writes, live, until it ends; then `result` is set.

        `trailing` goes on for what background processes write later, until the log has no more for now.
        Raises the reason when the command was given up before it could be taken.
        """
        scope = subjects.events_of(self.sandbox, scope=self.id)
        begun = start is not None
        async for entry in self._entries(scope, start):
            head = codec.decode_head(entry.data)
            if not head.type.startswith("command."):
                # Somebody may reuse the id of a running command for an order that is given up.
                if not begun:
                    raise_if_given_up(head, self.id)
                continue
            begun = True
            fact = codec.decode_fact(head)
            if isinstance(fact, facts.CommandOutput):
                yield Chunk(fact.stream, unpack(fact.data, fact.encoding), entry.seq)
            elif fact is not None:
                self.result = result_of(fact, entry.seq) or self.result
            if self.result is not None:
                break
        if trailing:
            async for chunk in self._trailing(scope):
                yield chunk

    def _entries(self, scope: list[str], start: int | None) -> AsyncIterator[reader.Entry]:
        tap, self._tap = self._tap, None
        if tap is not None and start is None:
            return reader.follow_tap(self._bus, scope, tap, self._start, complete=True)
        return reader.read(self._bus, scope, start or self._start, follow=True)

    async def _trailing(self, scope: list[str]) -> AsyncIterator[Chunk]:
        after = (self.result.sequence if self.result else 0) + 1
        async for entry in reader.read(self._bus, scope, after, follow=False):
            fact = codec.decode_fact(codec.decode_head(entry.data))
            if isinstance(fact, facts.CommandOutput):
                yield Chunk(fact.stream, unpack(fact.data, fact.encoding), entry.seq)

    async def wait(self) -> CommandResult:
        """The result with everything written. Raises the sandbox's error when the command was rejected."""
        collected: dict[facts.Stream, list[bytes]] = {stream: [] for stream in facts.Stream}
        async for chunk in self.output():
            collected[chunk.stream].append(chunk.data)
        if self.result is None:
            raise ClocheError(f"the log ended before command {self.id!r} did")
        if self.result.failure is not None:
            raise from_failure(self.result.failure)
        return CommandResult(
            **{
                **{name: getattr(self.result, name) for name in CommandResult.__struct_fields__},
                "stdout": b"".join(collected[facts.Stream.STDOUT] or collected[facts.Stream.PTY]),
                "stderr": b"".join(collected[facts.Stream.STDERR]),
            }
        )

    async def write(self, data: bytes) -> None:
        """Send bytes to stdin, in order."""
        for at in range(0, len(data), INPUT_CHUNK):
            piece = data[at : at + INPUT_CHUNK]
            packed = pack(piece)
            await self._send(
                InputCommand(exec=self.id, data=packed.data, encoding=packed.encoding, offset=self._written)
            )
            if self._written is not None:
                self._written += len(piece)

    async def close_stdin(self) -> None:
        await self._send(InputCommand(exec=self.id, offset=self._written, eof=True))

    async def signal(self, number: int, *, scope: Scope = Scope.TREE) -> None:
        await self._send(SignalCommand(exec=self.id, signal=number, scope=scope))

    async def cancel(self, *, signal: int = 15, grace_ms: int = 10_000, reason: str = "asked") -> None:
        """End it: the signal first, SIGKILL after the grace. Recorded as `cancelled`."""
        await self._send(SignalCommand(exec=self.id, signal=signal, cancel=True, grace_ms=grace_ms, reason=reason))

    async def resize(self, rows: int, cols: int) -> None:
        await self._send(ResizeCommand(exec=self.id, rows=rows, cols=cols))

    async def _send(self, order: InputCommand | SignalCommand | ResizeCommand) -> None:
        await publish(self._bus, self._node, self.sandbox, order)


def result_of(fact: Fact, sequence: int) -> CommandResult | None:
    """None unless the fact ends a command."""
    match fact:
        case facts.CommandCompleted() | facts.CommandTimedOut() | facts.CommandCancelled():
            outcome = {"CommandCompleted": "completed", "CommandTimedOut": "timed_out"}.get(
                type(fact).__name__, "cancelled"
            )
            ended = fact.exit or facts.Exit()
            return CommandResult(
                exec=fact.exec,
                outcome=outcome,
                exit_code=ended.code,
                signal=ended.signal,
                cause=fact.cause,
                duration_ms=fact.duration_ms,
                sequence=sequence,
            )
        case facts.CommandLost():
            return CommandResult(
                exec=fact.exec, outcome="lost", cause=f"{fact.cause}: {fact.detail}", sequence=sequence
            )
        case facts.CommandRejected():
            return CommandResult(
                exec=fact.exec, outcome="rejected", cause=fact.cause, failure=fact.failure, sequence=sequence
            )
    return None
