from pathlib import Path

import pytest

from contracts.events.file import FileReady
from contracts.events.sandbox import SandboxCreating
from contracts.spec import Isolation, SandboxSpec
from infra.blobs import layout
from infra.blobs.blobs import Blobs
from infra.blobs.errors import BlobMissing
from infra.bus.publisher import append
from infra.journal import Journal
from infra.log.live import LiveView
from infra.manifest.history import base_at, tree_at
from tests.bus.servers import Server, nats_in
from tests.manifest.story import WORKSPACE, Story


async def created(server: Server, sandbox: str, number: int = 1) -> int:
    bus = await server.connect("spawner")
    fact = SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="local")
    event = Journal(bus, service="spawner", node="local").write(sandbox, fact, id=f"{sandbox}.{number}")
    return (await append(bus, event.subject, event.payload, event.id)).seq


async def test_the_tree_at_any_sequence_is_what_was_there_then(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        await created(server, "sb")
        story, other = Story(blobs), Story(blobs, "sb2", seed=8)
        await story.ready()
        await other.ready()
        for _ in range(60):
            await story.step()
            await other.step()
        reader = Blobs(await server.connect("replay"))
        for each in (story, other):
            for sequence, tree in each.trees.items():
                found = await tree_at(LiveView(reader.bus), each.sandbox, sequence)
                assert found == (sequence, WORKSPACE, tree)
        between = min(story.trees) + 1
        assert between in other.trees
        found = await tree_at(LiveView(reader.bus), "sb", between)
        assert found is not None
        assert found.tree == story.trees[between - 1]


async def test_without_a_sequence_it_is_the_tree_of_now(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        await story.ready()
        for _ in range(20):
            await story.step()
        found = await tree_at(LiveView(story.blobs.bus), "sb")
        assert found == (max(story.trees), WORKSPACE, story.tree)


async def test_before_anything_is_on_record_there_is_no_tree(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        bus = story.blobs.bus
        assert await tree_at(LiveView(bus), "sb") is None
        born = await created(server, "sb")
        assert await tree_at(LiveView(bus), "sb", born) is None
        bare = await story.tell(FileReady(files=0))
        assert await tree_at(LiveView(bus), "sb", bare) is None
        ready = await story.ready()
        assert await tree_at(LiveView(bus), "sb", bare) is None
        assert await tree_at(LiveView(bus), "sb", ready) == (ready, WORKSPACE, {})


async def test_a_ready_without_a_manifest_does_not_hide_the_one_before(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        first = await story.ready()
        await story.step()
        bare = await story.tell(FileReady(files=0))
        base = await base_at(LiveView(story.blobs.bus), "sb", bare)
        assert base is not None
        assert base.sequence == first
        found = await tree_at(LiveView(story.blobs.bus), "sb", bare)
        assert found == (bare, WORKSPACE, story.tree)


async def test_a_sandbox_made_again_under_the_same_name_does_not_begin_with_the_old_files(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        await created(server, "sb", 1)
        await story.ready()
        await story.step()
        before = max(story.trees)
        again = await created(server, "sb", 2)
        assert await tree_at(LiveView(story.blobs.bus), "sb", again) is None
        assert await tree_at(LiveView(story.blobs.bus), "sb", before) == (before, WORKSPACE, story.tree)


async def test_a_manifest_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        await story.ready()
        await story.blobs.bus.api(f"STREAM.PURGE.{layout.STREAM}", {})
        with pytest.raises(BlobMissing):
            await tree_at(LiveView(story.blobs.bus), "sb")
