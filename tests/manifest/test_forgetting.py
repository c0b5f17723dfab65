"""A log that has forgotten: what is still on disk is still on record, and its contents are in the store."""

import asyncio
from pathlib import Path

import pytest

from contracts import codec
from contracts.events.file import FileOverflow
from contracts.events.sandbox import SandboxRemoved, SandboxStopped
from contracts.spec import CopyDirectory
from contracts.state import Status
from contracts.streams import LOG_STREAM, SANDBOXES_BUCKET
from infra.blobs import layout
from infra.blobs.blobs import Blobs
from infra.blobs.reading import find
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.bus.reader import Bounds
from infra.bus.wearing import is_worn
from infra.journal import Journal
from infra.lifecycles import Lifecycles
from infra.manifest.garbage import collect_garbage
from infra.settings import Files
from services.replay.mirror import CURSOR
from tests.bus.servers import Server, nats_in
from tests.file_watcher.rig import Following, following_on, in_log, told
from tests.manifest.story import Story

EAGER = Files(quiet_ms=10, manifest_s=0.1)
NEVER = Files(quiet_ms=10, manifest_s=86_400)


async def forget(server: Server, keep: int) -> None:
    """Everything but the newest events, once; the last of them is of another sandbox."""
    admin = await server.connect("admin")
    await Story(Blobs(await server.connect("file_watcher")), "other").tell(FileOverflow(reason="something else"))
    config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
    for most in (keep, config["max_msgs"]):
        await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", config | {"max_msgs": most})


async def sweep(server: Server, scratch: Path) -> None:
    await collect_garbage(await server.connect("file_watcher"), scratch, grace_s=0)


async def with_an_old_file(followed: Following) -> None:
    (followed.root / "old").write_text("never changed again")
    (followed.root / "noisy").write_text("0")
    await followed.flush()


async def all_contents_are_there(followed: Following) -> None:
    tree = await in_log(followed.bus)
    assert set(tree) == {b"old", b"noisy"}
    blobs = {entry.blob for entry in tree.values() if entry.blob}
    assert len(blobs) == 2
    assert await Blobs(followed.bus).missing(blobs) == set()


async def test_a_file_that_never_changes_outlives_the_log_that_first_told_of_it(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, following_on(server.embedded.connect, tmp_path, files=EAGER) as followed:
        await with_an_old_file(followed)
        for number in range(12):
            (followed.root / "noisy").write_text(f"changed {number} times")
            await followed.flush()
            await forget(server, 8)
        await followed.flush()
        await sweep(server, tmp_path)
        await all_contents_are_there(followed)


async def test_contents_that_were_swept_after_the_log_forgot_are_stored_again(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, following_on(server.embedded.connect, tmp_path, files=NEVER) as followed:
        await with_an_old_file(followed)
        (followed.root / "noisy").write_text("1")
        await followed.flush()
        await forget(server, 2)
        await sweep(server, tmp_path)
        (followed.root / "noisy").write_text("2")
        assert await followed.check() == 2
        await all_contents_are_there(followed)


async def test_contents_that_are_lost_are_stored_again_at_the_next_start(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, following_on(server.embedded.connect, tmp_path, files=NEVER) as followed:
        await with_an_old_file(followed)
        await followed.stop()
        admin = await server.connect("admin")
        name = (await in_log(followed.bus))[b"old"].blob
        assert name is not None
        stored = (await find(admin, [name]))[name]
        await admin.api(f"STREAM.MSG.DELETE.{layout.STREAM}", {"seq": stored.entry.seq})
        await followed.start()
        assert await followed.check() == 2
        await all_contents_are_there(followed)


async def test_files_whose_whole_past_is_forgotten_are_on_record_again_and_were_not_made_anew(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, following_on(server.embedded.connect, tmp_path, files=NEVER) as followed:
        await with_an_old_file(followed)
        await forget(server, 1)
        (followed.root / "noisy").write_text("1")
        assert await followed.check() == 2
        assert await told(followed.bus) == set()
        await sweep(server, tmp_path)
        await all_contents_are_there(followed)


async def test_the_same_beginning_can_be_told_again_at_once_after_it_was_forgotten(tmp_path: Path) -> None:
    async with (
        nats_in(tmp_path) as server,
        following_on(
            server.embedded.connect, tmp_path, files=NEVER, source=CopyDirectory(path="/x"), started=False
        ) as followed,
        asyncio.timeout(20),
    ):
        (followed.root / "old").write_text("never changed again")
        await followed.start()
        await followed.flush()
        await forget(server, 1)
        assert await followed.check() == 1


async def test_a_sandbox_that_outlives_the_log_of_its_beginning_is_known_and_can_be_moved(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server, following_on(server.embedded.connect, tmp_path, files=NEVER):
        spawner, replay = await server.connect("spawner"), await server.connect("replay")
        journal = Journal(spawner, service="spawner", node="local")
        state = await journal.lifecycle("sb")
        assert state is not None
        await Bucket(replay, SANDBOXES_BUCKET).put("sb", codec.encode(state))
        await Bucket(replay, SANDBOXES_BUCKET).put(CURSOR, codec.encode(state.applied_sequence))
        await forget(server, 1)
        assert await known(spawner) == {"sb"}
        found = await journal.lifecycle("sb")
        assert found is not None
        assert (found.status, found.node, found.lifecycle_sequence) == (Status.RUNNING, "local", 0)
        stopped = SandboxStopped(reason="it is time")
        await journal.move("sb", stopped, expected=found.lifecycle_sequence)
        found = await journal.lifecycle("sb")
        assert found is not None
        assert found.status == Status.STOPPED
        await journal.move("sb", SandboxRemoved(reason="over"), expected=found.lifecycle_sequence)
        assert await known(spawner) == set()
        assert await journal.lifecycle("nobody") is None


async def known(bus: Bus) -> set[str]:
    """To a service that starts now."""
    lifecycles = Lifecycles(bus)
    following = asyncio.create_task(lifecycles.follow())
    try:
        await lifecycles.caught_up.wait()
        return {state.sandbox for state in lifecycles}
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize(
    ("sequence", "bounds", "worn"),
    [
        (2, Bounds(1, 1000), False),
        (999, Bounds(1000, 2000), True),
        (1249, Bounds(1000, 2000), True),
        (1250, Bounds(1000, 2000), False),
        (5, Bounds(5, 5), False),
        (5, Bounds(6, 5), True),
    ],
)
def test_a_manifest_wears_only_at_the_old_end_of_a_log_that_forgets(sequence: int, bounds: Bounds, worn: bool) -> None:
    assert is_worn(sequence, bounds) is worn
