"""What a session was while it happened: written down from the live log and from the disk, to be compared later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from contracts import changes, codec, folding, subjects
from contracts.events import command
from contracts.events.file import FileReady
from contracts.folding import Folded
from contracts.manifest import Tree
from contracts.message import Fact
from contracts.payload import unpack
from contracts.screens import DEFAULT_SIZE
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client import Sandbox
from infra.terminal.emulator import Emulator
from tests.bus.servers import until
from tests.replay.session import listing


class Shown(NamedTuple):
    exec: str
    lines: list[str]
    cursor: tuple[int, int]


class Recording:
    def __init__(self, sandbox: str, workspaces: Path) -> None:
        self.sandbox = sandbox
        self._workspace = workspaces / sandbox / "workspace"
        self.lines: list[bytes] = []
        """Of a golden history."""
        self.folded: dict[int, Folded] = {}
        """After each of its events."""
        self.screens: dict[int, Shown] = {}
        """Of the command that an event was about."""
        self.files: dict[int, Tree] = {}
        """After each event since they were first told of."""
        self.trees: dict[int, dict[str, str]] = {}
        """What was on disk, by the sequence at which the log has all of it."""
        self._terminals: dict[str, Emulator] = {}
        self._ptys: set[str] = set()

    @property
    def last(self) -> int:
        return max(self.folded, default=0)

    def hear(self, sequence: int, raw: bytes) -> None:
        head = codec.decode_head(raw)
        moved = folding.apply(self.folded.get(self.last), sequence, head)
        if moved is None:
            return
        self.folded[sequence] = moved
        self.lines.append(b'{"sequence":%d,"event":%b}\n' % (sequence, raw))
        fact = codec.decode_fact(head)
        self._keep_files(sequence, fact)
        self._show(sequence, fact)

    def _keep_files(self, sequence: int, fact: Fact | None) -> None:
        """It begins with an empty workspace."""
        if not self.files and not isinstance(fact, FileReady):
            return
        tree = dict(self.files[max(self.files)]) if self.files else {}
        if fact is not None:
            changes.apply(tree, fact, "/workspace")
        self.files[sequence] = tree

    def _show(self, sequence: int, fact: Fact | None) -> None:
        match fact:
            case command.CommandStarted():
                size = fact.pty or DEFAULT_SIZE
                self._terminals[fact.exec] = Emulator(size.cols, size.rows)
                self._ptys |= {fact.exec} if fact.pty else set()
            case command.CommandInput(resize=command.TerminalSize() as size):
                self._terminals[fact.exec].resize(size.cols, size.rows)
            case command.CommandOutput():
                data = unpack(fact.data, fact.encoding)
                self._terminals[fact.exec].feed(data if fact.exec in self._ptys else data.replace(b"\n", b"\r\n"))
            case _:
                return
        terminal = self._terminals[fact.exec]
        self.screens[sequence] = Shown(fact.exec, terminal.lines(), (terminal.cursor.x, terminal.cursor.y))

    async def look(self, sandbox: Sandbox) -> None:
        """At the disk, where nothing runs."""
        flushed = await sandbox.flush()
        self.trees[flushed.sequence] = await asyncio.to_thread(listing, self._workspace)


@asynccontextmanager
async def recording(bus: Bus, sandbox: str, workspaces: Path) -> AsyncIterator[Recording]:
    """Ends when the log has nothing more of it."""
    recorded = Recording(sandbox, workspaces)

    async def follow() -> None:
        async for entry in reader.read(bus, subjects.events_of(sandbox), 1, follow=True):
            recorded.hear(entry.seq, entry.data)

    following = asyncio.create_task(follow())
    try:
        yield recorded
        newest = await reader.last(bus, subjects.events_of(sandbox)[0])
        assert newest is not None
        await until(lambda: recorded.last >= newest.seq)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
