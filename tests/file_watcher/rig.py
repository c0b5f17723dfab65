"""A workspace as the disk has it, as the log has it, and as the newest manifest has it."""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from contracts import codec, subjects
from contracts.changes import changes_of
from contracts.events.file import EntryKind, FileChange
from contracts.events.sandbox import SandboxCreated, SandboxCreating, SandboxStarted
from contracts.manifest import Entry, Tree
from contracts.message import Fact
from contracts.spec import Isolation, SandboxSpec, Source, Workspace
from contracts.state import SandboxState
from contracts.watch import Flush, Flushed
from infra.blobs.blobs import Blobs
from infra.bus import reader
from infra.bus.connection import Bus
from infra.journal import Journal
from infra.log.live import LiveView
from infra.manifest.history import tree_at
from infra.manifest.stored import load_manifest
from infra.settings import Files
from infra.watching.watches import Watches
from services.file_watcher.follower import Follower
from services.file_watcher.loop import keep_following
from services.file_watcher.remembered import Remembered
from services.file_watcher.texts import Texts
from services.file_watcher.tools import Tools
from tests.bus.servers import nats_in

DEFAULTS = Files(quiet_ms=20)
Connect = Callable[[str], Awaitable[Bus]]


class Thing(NamedTuple):
    """What must agree."""

    kind: str
    mode: int
    size: int
    sha256: str | None
    target: bytes | None
    mtime_us: int | None


def on_disk(root: Path) -> dict[bytes, Thing]:
    found: dict[bytes, Thing] = {}
    top = os.fsencode(root)
    for place, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = os.path.join(place, name)
            found[path[len(top) + 1 :]] = _thing(path)
    return found


def _thing(path: bytes) -> Thing:
    info = os.lstat(path)
    mode, mtime_us = stat.S_IMODE(info.st_mode), info.st_mtime_ns // 1000
    if stat.S_ISDIR(info.st_mode):
        return Thing("directory", mode, 0, None, None, None)
    if stat.S_ISLNK(info.st_mode):
        return Thing("symlink", mode, 0, None, os.readlink(path), mtime_us)
    if not stat.S_ISREG(info.st_mode):
        return Thing("other", mode, 0, None, None, mtime_us)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Thing("file", mode, info.st_size, digest, None, mtime_us)


def as_things(tree: Tree) -> dict[bytes, Thing]:
    return {path: _of(entry) for path, entry in tree.items()}


def _of(entry: Entry) -> Thing:
    target = entry.target if entry.kind == EntryKind.SYMLINK else None
    return Thing(str(entry.kind), entry.mode, entry.size, entry.sha256, target, entry.mtime_us)


async def in_log(bus: Bus, at: int | None = None, sandbox: str = "sb") -> Tree:
    found = await tree_at(LiveView(bus), sandbox, at)
    assert found is not None
    return found.tree


async def facts(bus: Bus, after: int = 0, sandbox: str = "sb") -> list[Fact]:
    """What the log tells of its files."""
    filters = subjects.events_of(sandbox, family="file")
    entries = [entry async for entry in reader.read(bus, filters, after + 1, follow=False)]
    read = [codec.decode_fact(codec.decode_head(entry.data)) for entry in entries]
    return [fact for fact in read if fact is not None]


async def changes(bus: Bus, after: int = 0, sandbox: str = "sb") -> list[FileChange]:
    """Alone or in batches, in order."""
    return [change for fact in await facts(bus, after, sandbox) for change in changes_of(fact)]


async def told(bus: Bus, after: int = 0, sandbox: str = "sb") -> set[tuple[str, str]]:
    """Action and path within the workspace."""
    return {(str(each.action), each.path.removeprefix("/workspace/")) for each in await changes(bus, after, sandbox)}


async def check_agreement(bus: Bus, flushed: Flushed, root: Path, sandbox: str = "sb") -> int:
    """After a flush with a manifest: log, manifest and disk say the same, and every content is in the store.

    Returns the number of entries.
    """
    disk = on_disk(root)
    assert as_things(await in_log(bus, flushed.sequence, sandbox)) == disk
    assert flushed.manifest is not None
    assert flushed.files == len(disk)
    blobs = Blobs(bus)
    listed = (await load_manifest(blobs, flushed.manifest)).tree
    assert as_things(listed) == disk
    files = [entry for entry in listed.values() if entry.kind == EntryKind.FILE]
    assert all(entry.blob == entry.sha256 for entry in files)
    assert not await blobs.missing(entry.blob for entry in files if entry.blob)
    return len(disk)


class Following:
    """A directory that is followed in this process, on a server of its own."""

    def __init__(self, connect: Connect, bus: Bus, root: Path, files: Files, state: SandboxState) -> None:
        self.connect = connect
        self.root = root
        self.remembers = root.parent / "remembered"
        self.bus = bus
        self._files = files
        self._state = state
        self._stack = AsyncExitStack()
        self.watches: Watches
        self.follower: Follower

    async def start(self) -> None:
        bus = await self._stack.enter_async_context(await self.connect("file_watcher"))
        self.watches = await self._stack.enter_async_context(Watches())
        journal = Journal(bus, service="file_watcher", node="local")
        portions, remembered = asyncio.Semaphore(2), Remembered(self.remembers)
        tools = Tools(bus, journal, Blobs(bus), self.watches, self._files, Texts(), portions, remembered)
        self.follower = Follower(tools, self._state, self._locate)
        task = asyncio.create_task(keep_following(self.follower, "sb"))
        self._stack.push_async_callback(_end, task)

    async def _locate(self) -> Path:
        return self.root

    async def stop(self) -> None:
        """At once, as a crash would: nothing is finished."""
        await self._stack.aclose()

    async def flush(self, *, manifest: bool = False, final: bool = False) -> int:
        return (await self.follower.flush(Flush(manifest=manifest, final=final))).sequence

    async def check(self) -> int:
        return await check_agreement(self.bus, await self.follower.flush(Flush(manifest=True)), self.root)


async def _created(connect: Connect, source: Source | None) -> SandboxState:
    """A sandbox as the log has it."""
    spec = SandboxSpec(workspace=Workspace(source=source))
    async with await connect("spawner") as bus:
        journal = Journal(bus, service="spawner", node="local")
        creating = SandboxCreating(spec=spec, isolation=Isolation.LOCAL, node="local")
        created = SandboxCreated(node="local", isolation=Isolation.LOCAL, workspace="/workspace")
        for number, fact in enumerate((creating, created, SandboxStarted(instance="life-1"))):
            await journal.append(journal.write("sb", fact, id=f"sb.{number}"))
        state = await journal.lifecycle("sb")
    assert state is not None
    return state


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def following(
    place: Path, *, files: Files = DEFAULTS, source: Source | None = None, started: bool = True
) -> AsyncIterator[Following]:
    async with (
        nats_in(place) as server,
        following_on(server.embedded.connect, place, files=files, source=source, started=started) as followed,
    ):
        yield followed


@asynccontextmanager
async def following_on(
    connect: Connect, place: Path, *, files: Files = DEFAULTS, source: Source | None = None, started: bool = True
) -> AsyncIterator[Following]:
    """On a server that is there already."""
    root = place / "workspace"
    root.mkdir()
    async with await connect("client") as bus:
        followed = Following(connect, bus, root, files, await _created(connect, source))
        try:
            if started:
                await followed.start()
            yield followed
        finally:
            await followed.stop()


async def until_told(bus: Bus, path: str) -> FileChange:
    """The first change of it that the log tells."""
    async for entry in reader.read(bus, subjects.events_of("sb", family="file"), 1, follow=True):
        fact = codec.decode_fact(codec.decode_head(entry.data))
        for change in changes_of(fact) if fact is not None else ():
            if change.path == f"/workspace/{path}":
                return change
    raise AssertionError("the log has an end")
