import asyncio
import os
from pathlib import Path

import pytest

from contracts.events.file import FileManifest
from contracts.events.sandbox import SandboxSnapshotted
from infra.blobs import layout
from infra.blobs.blobs import Blobs
from infra.blobs.errors import BlobMissing
from infra.blobs.guarded import append_after
from infra.blobs.reading import find
from infra.bus.errors import Denied
from infra.bus.publisher import append
from infra.journal import Journal
from infra.log.live import LiveView
from infra.manifest.garbage import _Sweep, collect_garbage, keep_swept
from infra.manifest.history import tree_at
from infra.manifest.marks import Marks
from infra.manifest.restore import restore
from infra.manifest.stored import store_manifest
from tests.blobs.bucket import Contents, contents
from tests.bus.servers import Server, nats_in
from tests.manifest.story import WORKSPACE, Story


async def a_story(server: Server, steps: int = 30) -> Story:
    story = Story(Blobs(await server.connect("file_watcher")))
    await story.ready()
    for _ in range(steps):
        await story.step()
    return story


async def test_every_moment_on_record_stays_and_only_what_nothing_refers_to_goes(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = await a_story(server)
        bus = story.blobs.bus
        before = await contents(bus)
        garbage = [os.urandom(size) for size in (0, 10, 10, layout.CHUNK_BYTES + 1)]
        names = await story.blobs.put_many(garbage)
        await append_after(bus, layout.chunks_subject(layout.new_nuid()), b"of a writer that died", 0)
        swept = await collect_garbage(bus, tmp_path, grace_s=0)
        assert swept == (before.objects, 4, sum(map(len, garbage)), 1)
        assert await contents(bus) == before
        assert await story.blobs.missing(names) == set(names)
        for number, (sequence, tree) in enumerate(story.trees.items()):
            found = await tree_at(LiveView(bus), "sb", sequence)
            assert found is not None
            assert found.tree == tree
            (tmp_path / str(number)).mkdir()
            for missing in (await restore(tree, story.blobs, tmp_path / str(number))).missing:
                assert "no place for it" in missing.reason
        assert not (tmp_path / "garbage.sqlite").exists()


async def test_what_only_a_manifest_or_a_snapshot_names_stays(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = await a_story(server, steps=0)
        bus, spawner = story.blobs.bus, await server.connect("spawner")
        for number in range(2):
            await story._change()
            stored = await store_manifest(story.blobs, story.tree, WORKSPACE)
            if number:
                await story.tell(FileManifest(manifest=stored.sha256, files=1, bytes=1))
                continue
            fact = SandboxSnapshotted(manifest=stored.sha256, files=1, size=1)
            written = Journal(spawner, service="spawner", node="local").write("sb", fact, id="snapshot")
            await append(spawner, written.subject, written.payload, written.id)
        admin = await server.connect("admin")
        await admin.api("STREAM.UPDATE.CLOCHE_LOG", await forgetful(server))
        before = await contents(bus)
        assert (await collect_garbage(bus, tmp_path, grace_s=0)).removed == 1, "the manifest that ready named"
        assert (await contents(bus)).objects == before.objects - 1
        blobs = {entry.blob for entry in story.tree.values() if entry.blob}
        assert blobs
        assert await story.blobs.missing(blobs) == set()


async def forgetful(server: Server) -> dict[str, object]:
    """The log's configuration with room for nothing but its last three messages."""
    admin = await server.connect("admin")
    config: dict[str, object] = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
    return config | {"max_msgs": 3}


async def test_what_was_stored_a_moment_ago_is_left_alone(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        await blobs.put(b"referred to in a moment")
        await append_after(blobs.bus, layout.chunks_subject(layout.new_nuid()), b"of a writer that is busy", 0)
        assert await collect_garbage(blobs.bus, tmp_path) == (1, 0, 0, 0)
        assert await contents(blobs.bus) == Contents(1, 2)


async def test_a_blob_that_is_renewed_during_the_sweep_stays(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"), grace_s=0)
        name = await blobs.put(b"content")
        stale = (await find(blobs.bus, [name]))[name]
        await blobs.put(b"content")
        async with Marks(tmp_path / "marks") as marks:
            sweep = _Sweep(blobs.bus, marks, stale.entry.time)
            assert not await sweep._remove(stale.entry, stale.info)
            assert await blobs.get(name) == b"content"
            fresh = (await find(blobs.bus, [name]))[name]
            assert await sweep._remove(fresh.entry, fresh.info)
        assert await contents(blobs.bus) == Contents(0, 0)
        assert await blobs.put(b"content") == name
        assert await blobs.get(name) == b"content"


async def test_while_a_manifest_cannot_be_read_nothing_is_removed(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = await a_story(server, steps=5)
        bus = story.blobs.bus
        await story.tell(FileManifest(manifest="0" * 64, files=1, bytes=1))
        await story.blobs.put(b"garbage")
        before = await contents(bus)
        with pytest.raises(BlobMissing):
            await collect_garbage(bus, tmp_path, grace_s=0)
        assert await contents(bus) == before


async def test_a_sweep_that_was_broken_off_is_finished_by_the_next(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        story = await a_story(server, steps=10)
        bus = story.blobs.bus
        before = await contents(bus)
        names = await story.blobs.put_many([os.urandom(20) for _ in range(30)])
        for name in names[:10]:
            stored = (await find(bus, [name]))[name]
            await bus.api(f"STREAM.MSG.DELETE.{layout.STREAM}", {"seq": stored.entry.seq})
        (tmp_path / "garbage.sqlite").write_bytes(b"of a sweep that was killed")
        swept = await collect_garbage(bus, tmp_path, grace_s=0)
        assert (swept.removed, swept.leftovers) == (20, 10)
        assert await contents(bus) == before


async def test_only_the_file_watcher_may_sweep(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        await Blobs(await server.connect("file_watcher")).put(b"garbage")
        for user in ("client", "replay", "spawner"):
            with pytest.raises(Denied):
                await collect_garbage(await server.connect(user), tmp_path, grace_s=0)


async def test_a_scratch_directory_in_trouble_does_not_end_the_sweeping(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "infra.manifest.garbage")
    async with nats_in(tmp_path) as server:
        bus, scratch = await server.connect("file_watcher"), tmp_path / "scratch"
        scratch.write_text("no directory")
        sweeping = asyncio.create_task(keep_swept(bus, scratch, every_s=0.01))
        try:
            async with asyncio.timeout(20):
                while "collected later" not in caplog.text and not sweeping.done():
                    await asyncio.sleep(0.01)
                scratch.unlink()
                scratch.mkdir()
                while "0 kept" not in caplog.text and not sweeping.done():
                    await asyncio.sleep(0.01)
            assert not sweeping.done()
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
