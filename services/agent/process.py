"""A run's program in the sandbox: an ordinary command, followed and spoken to through the log.

The log has every byte of it, so nothing is held here that a restart could lose: whoever attaches reads what was written
from the beginning, and what was said to it is not said again.
"""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

from contracts import codec, subjects
from contracts.commands.command import Asker, InputCommand, RunCommand, Scope, SignalCommand
from contracts.errors import AgentFailed, ClocheError, from_failure
from contracts.events import command as facts
from contracts.message import Fact, Order
from contracts.payload import pack, unpack
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.execution import CommandResult, result_of
from infra.client.orders import publish, raise_if_given_up
from services.agent.digest import digest
from services.agent.lines import Line, Lines

LONGEST_LINE = 16 * 1024 * 1024
LAST_WORDS = 4000
INPUT_PIECE = 256 * 1024
AHEAD_BYTES = 4 * 1024 * 1024
"""Of lines that wait for whoever takes them; then no more is read."""
LINE_OVERHEAD = 200
MASK = b"**"
STAR = ord("*")


class ProcessLost(ClocheError):
    """The program is gone and nobody knows how far it came: its sandbox died, or the keeper did."""

    code = "UNAVAILABLE"


class _Waiting:
    """Lines that were read and not taken, so many bytes of them at most."""

    def __init__(self) -> None:
        self._lines: collections.deque[Line] = collections.deque()
        self._bytes = 0
        self._over = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        return not self._lines

    async def put(self, line: Line) -> None:
        while self._bytes >= AHEAD_BYTES:
            self._room.clear()
            await self._room.wait()
        self._lines.append(line)
        self._bytes += len(line.data) + LINE_OVERHEAD
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def take(self) -> Line | None:
        """None at the end."""
        while not self._lines:
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()
        line = self._lines.popleft()
        self._bytes -= len(line.data) + LINE_OVERHEAD
        self._room.set()
        return line


class Process:
    """Use as an async context manager: entering starts it, or finds it; leaving lets it run."""

    def __init__(
        self, bus: Bus, *, node: str, sandbox: str, exec_id: str, start: int, most_bytes: int = 1 << 62
    ) -> None:
        """`start`: no event of it precedes this sequence. `most_bytes`: of all that it writes, then it is a flood."""
        self._bus = bus
        self._most_bytes = most_bytes
        self._written = 0
        self._node = node
        self._sandbox = sandbox
        self.id = exec_id
        self._start = start
        self.result: CommandResult | None = None
        """Once it has ended."""
        self.inputs: tuple[bytes, ...] = ()
        """Lines that it was told before we came, oldest first; secrets in them are masked."""
        self._outputs = Lines(LONGEST_LINE)
        self._stdin = Lines(1 << 40)
        self._said: collections.Counter[str] = collections.Counter()
        self._masked: dict[int, list[bytes]] = {}
        """Of lines that it was told, those in which something may be masked, by their length."""
        self._saying = b""
        self._heard = asyncio.Event()
        self._waiting = _Waiting()
        self._error: ClocheError | None = None
        self._over = False
        self._last_words = b""
        self._started = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._writing = asyncio.Lock()
        self._past = 0
        self.heard_at = asyncio.get_running_loop().time()
        """When it wrote something last, by the loop's clock."""

    def excuse(self) -> None:
        """It could not write until now."""
        self.heard_at = asyncio.get_running_loop().time()

    def quiet_s(self) -> float:
        """For how long it has written nothing; 0 while something that it wrote waits to be taken."""
        return asyncio.get_running_loop().time() - self.heard_at if self._waiting.is_empty else 0.0

    @property
    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return self._last_words.decode("utf-8", "replace").strip()

    @contextlib.asynccontextmanager
    async def attached(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None
    ) -> AsyncIterator["Process"]:
        """Raises the reason where it cannot be started, `ProcessLost`."""
        self._past = (await reader.patiently(self._bus, reader.bounds)).last
        order = RunCommand(argv=tuple(argv), env=dict(env), cwd=cwd, stdin=True, asker=Asker.AGENT)
        (events,) = subjects.events_of(self._sandbox, scope=self.id)
        if await reader.patiently(self._bus, lambda bus: reader.first(bus, events, start=self._start)) is None:
            await publish(self._bus, self._node, self._sandbox, order, id=self.id)
        following = asyncio.create_task(self._follow())
        try:
            await self._caught_up.wait()
            await self._started.wait()
            if self._error is not None and not isinstance(self._error, AgentFailed):
                raise self._error
            yield self
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def lines(self) -> AsyncIterator[Line]:
        """What it writes to stdout, from the very beginning, until it ends; then `result` is set.

        Raises `ProcessLost`, `AgentFailed` for a line that is too long, or a flood.
        """
        while (line := await self._waiting.take()) is not None:
            yield line
        if self._error is not None:
            raise self._error

    async def say(self, line: bytes) -> None:
        """One line to stdin, without its line break; returns when the log has it. The same line is said once.

        So each has to have something of its own in it, an id say. Raises `AgentFailed` where the process has ended.
        """
        name = digest(line.decode("latin-1"))
        async with self._writing:
            if self._was_said(line):
                return
            if self._over:
                raise AgentFailed("the agent's process has ended, and hears no more", reason="ended")
            self._saying, self._heard = line, asyncio.Event()
            whole = line + b"\n"
            pieces = [whole[at : at + INPUT_PIECE] for at in range(0, len(whole), INPUT_PIECE)]
            for number, piece in enumerate(pieces):
                packed = pack(piece)
                order = InputCommand(exec=self.id, data=packed.data, encoding=packed.encoding)
                # The keeper knows the ids of what it was given, so a piece that comes twice is written once.
                await self._order(order, f"i-{digest(self.id, name)}-{number}")
            await self._heard.wait()
        if not self._was_said(line):
            raise AgentFailed("the agent's process has ended, and hears no more", reason="ended")

    async def end_input(self) -> None:
        await self._order(InputCommand(exec=self.id, eof=True), f"i-{digest(self.id)}-eof")

    async def signal(self, number: int, *, scope: Scope = Scope.TREE, key: str = "") -> None:
        await self._order(
            SignalCommand(exec=self.id, signal=number, scope=scope), f"s-{digest(self.id, key)}" if key else None
        )

    async def _order(self, order: Order, name: str | None = None) -> None:
        await publish(self._bus, self._node, self._sandbox, order, id=name)

    def _was_said(self, line: bytes) -> bool:
        if self._said[digest(line.decode("latin-1"))]:
            return True
        return any(_is(line, told) for told in self._masked.get(len(line), ()))

    async def _follow(self) -> None:
        try:
            await self._read()
            if self.result is not None and self.result.outcome == "lost":
                self._error = ProcessLost(f"the agent's process was lost: {self.result.cause}")
            elif self._outputs.rest:
                await self._waiting.put(Line(self._outputs.offset, self._outputs.rest))
        except ClocheError as failed:
            self._error = failed
        self._over = True
        self._caught_up.set()
        self._started.set()
        self._heard.set()
        self._waiting.end()

    async def _read(self) -> None:
        scope = subjects.events_of(self._sandbox, scope=self.id)
        async for entry in self._entries(scope):
            head = codec.decode_head(entry.data)
            if not head.type.startswith("command."):
                if not self._started.is_set():
                    raise_if_given_up(head, self.id)
                continue
            fact = codec.decode_fact(head)
            if fact is not None:
                await self._take(fact, entry.seq)
            if self.result is not None:
                return

    async def _entries(self, scope: list[str]) -> AsyncIterator[reader.Entry]:
        """Those of the past, after which it is known what was said; then what comes."""
        recorded: list[bytes] = []
        said = subjects.events_of(self._sandbox, family="command", kind="input", scope=self.id)
        async for entry in reader.read(self._bus, said, self._start, follow=False, end=self._past):
            fact = codec.decode_fact(codec.decode_head(entry.data))
            if isinstance(fact, facts.CommandInput):
                recorded += self._hear(fact)
        self.inputs = tuple(recorded)
        self._caught_up.set()
        async for entry in reader.read(self._bus, scope, self._start, follow=True):
            yield entry

    async def _take(self, fact: Fact, sequence: int) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        match fact:
            case facts.CommandStarted():
                self._started.set()
            case facts.CommandInput() if sequence > self._past:
                self._hear(fact)
            case facts.CommandOutput(stream=facts.Stream.STDOUT):
                self._count(fact)
                for line in self._outputs.feed(unpack(fact.data, fact.encoding)):
                    await self._waiting.put(line)
            case facts.CommandOutput(stream=facts.Stream.STDERR):
                self._count(fact)
                self._last_words = (self._last_words + unpack(fact.data, fact.encoding))[-LAST_WORDS:]
            case facts.CommandRejected():
                raise from_failure(fact.failure)
        self.result = result_of(fact, sequence) or self.result

    def _count(self, fact: facts.CommandOutput) -> None:
        self._written += fact.size
        if self._written > self._most_bytes:
            raise AgentFailed(f"the agent wrote more than {self._most_bytes} bytes", reason="flood")

    def _hear(self, fact: facts.CommandInput) -> list[bytes]:
        lines = [line.data for line in self._stdin.feed(unpack(fact.data, fact.encoding))]
        for line in lines:
            if MASK in line:
                self._masked.setdefault(len(line), []).append(line)
            else:
                self._said[digest(line.decode("latin-1"))] += 1
            if _is(self._saying, line):
                self._heard.set()
        return lines


def _is(said: bytes, told: bytes) -> bool:
    """Whether a line on record is this one: where a secret stood, there are stars."""
    if said == told:
        return True
    return len(said) == len(told) and all(its in (mine, STAR) for mine, its in zip(said, told, strict=True))
