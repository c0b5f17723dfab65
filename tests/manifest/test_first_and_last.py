"""What a workspace began with and how it ended is on record: the spawner waits for the file watcher."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from contracts import codec, subjects
from contracts.events.file import FileOverflow
from contracts.queries import Reply
from contracts.spec import Isolation
from contracts.watch import Flush, Flushed
from infra.blobs.blobs import Blobs
from infra.bus.broker import answer, make_broker
from infra.sandbox.providers import load_providers
from services.spawner.flushing import Flushing
from tests.bus.servers import Server, nats_in
from tests.file_watcher.rig import _created, in_log, told
from tests.manifest.story import Story
from tests.services.node import node_in

STALLED_S = 0.5
DONE = codec.encode(Reply(result=msgspec.Raw(codec.encode(Flushed(sequence=1, files=0, bytes=0)))))


@asynccontextmanager
async def a_watcher(server: Server, flush: Callable[[Story], Awaitable[bytes]]) -> AsyncIterator[None]:
    """Answers as it says, and tells what it says on the way."""
    bus = await server.connect("file_watcher")
    story = Story(Blobs(bus))

    async def respond(subject: str, raw: bytes) -> bytes:
        assert codec.decode(raw, Flush).final
        return await flush(story)

    broker = make_broker(bus)
    answer(broker, subjects.rpc_filter("watch", "local"), respond, queue="file_watcher")
    await broker.start()
    try:
        yield
    finally:
        await broker.stop()


async def removal(server: Server) -> str:
    """Of a sandbox that cannot be stopped, as there is none."""
    async with load_providers(server.data) as providers:
        flushing = Flushing(await server.connect("spawner"), "local", stalled_s=STALLED_S)
        return await flushing.before_removal(providers[Isolation.LOCAL], await _created(server.embedded.connect, None))


async def test_a_removal_waits_for_a_watcher_that_takes_long_and_advances(tmp_path: Path) -> None:
    async def slowly(story: Story) -> bytes:
        for _ in range(6):
            await asyncio.sleep(STALLED_S / 2)
            await story.tell(FileOverflow(reason="much to tell"))
        return DONE

    async with nats_in(tmp_path) as server, a_watcher(server, slowly):
        assert "may be missing" not in await removal(server)


async def test_a_removal_waits_while_contents_are_stored_before_any_event(tmp_path: Path) -> None:
    async def slowly(story: Story) -> bytes:
        for number in range(6):
            await asyncio.sleep(STALLED_S / 2)
            await story.blobs.put(b"%d" % number)
        return DONE

    async with nats_in(tmp_path) as server, a_watcher(server, slowly):
        assert "may be missing" not in await removal(server)


async def test_a_removal_does_not_wait_for_a_watcher_that_gets_nowhere(tmp_path: Path) -> None:
    released = asyncio.Event()

    async def never(_: Story) -> bytes:
        await released.wait()
        return DONE

    async with nats_in(tmp_path) as server, a_watcher(server, never):
        assert "its last changes to files may be missing" in await removal(server)
        released.set()


async def test_the_last_files_of_what_cannot_be_stopped_are_told_too(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def at_once(_: Story) -> bytes:
        asked.set()
        return DONE

    async with nats_in(tmp_path) as server, a_watcher(server, at_once):
        words = await removal(server)
        assert asked.is_set()
        assert "could not be stopped" in words
        assert "may be missing" not in words


async def test_what_the_first_command_does_to_files_that_were_there_is_told(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(1500):
        (source / f"f{number}").write_text(f"original {number}")
    async with node_in(tmp_path / "node") as (_, cloche):
        spec = {"workspace": {"source": {"kind": "directory", "path": str(source)}}}
        sandbox = await cloche.create(spec, id="sb")
        assert (await sandbox.run("echo edited > f1490; rm f1491")).exit_code == 0
        await sandbox.flush()
        assert {("modified", "f1490"), ("deleted", "f1491")} <= await told(cloche.bus)
        assert len(await in_log(cloche.bus)) == 1499
