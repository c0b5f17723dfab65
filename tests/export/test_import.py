import datetime
import gzip
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.archives import PIECE_BYTES, ImportPiece, ListImports, import_id
from contracts.chain import Message
from contracts.errors import Conflict, Invalid, SandboxInvalidState, SandboxNotFound, Unavailable
from contracts.events.file import FileReady
from contracts.events.sandbox import SandboxCreating
from contracts.exports import Header
from contracts.message import Event
from contracts.spec import Isolation, SandboxSpec
from infra.blobs.blobs import Blobs
from infra.bus import reader
from infra.bus.errors import Denied
from infra.client import Cloche
from infra.client.imported import ImportedSandbox
from infra.client.imports import import_file, imports
from infra.export.contents import pieces
from infra.export.jsonl import Span
from infra.log.archived import ArchivedView
from infra.log.choosing import view_of
from infra.log.live import LiveView
from infra.manifest.garbage import collect_garbage
from infra.manifest.history import tree_at
from infra.manifest.stored import MOST_LINE_BYTES
from tests.bus.servers import Server, nats_in
from tests.export.hostile import hostile_files
from tests.export.rig import a_session, checkpoint, event_lines, exported, lines_of, taking_imports, tell, written
from tests.manifest.story import Story

TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Server, Server]]:
    """Two Cloches that know nothing of each other."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(nats_in(tmp_path / "a")),
            await stack.enter_async_context(nats_in(tmp_path / "b")),
        )


async def a_proven_session(server: Server) -> Story:
    await a_session(server, "noise", steps=3, seed=3)
    story = await a_session(server)
    await checkpoint(server)
    return story


async def test_an_imported_session_is_the_one_that_was_exported(two: tuple[Server, Server], tmp_path: Path) -> None:
    here, there = two
    story = await a_proven_session(here)
    original, file = LiveView(await here.connect("client")), tmp_path / "sb.jsonl.gz"
    await exported(original, file)
    await a_session(there, "local", steps=2)
    async with taking_imports(there):
        client = await there.connect("client")
        answer = await import_file(client, file)
        assert answer.sandboxes == ("sb",)
        view = await view_of(client, "sb")
        assert isinstance(view, ArchivedView)

        wanted = [each async for each in original.read(subjects.events_of("sb"))]
        found = [each async for each in view.read(subjects.events_of("sb"))]
        assert [each[:5] for each in found] == [each[:5] for each in wanted]
        await _asks_the_same(original, view, [each.seq for each in wanted])
        for sequence, tree in story.trees.items():
            at = await tree_at(view, "sb", sequence)
            assert at is not None
            assert at.tree == tree

        await exported(view, tmp_path / "again.jsonl")
        (tmp_path / "first.jsonl").write_bytes(gzip.decompress(file.read_bytes()))
        assert lines_of(tmp_path / "again.jsonl")[1:] == lines_of(tmp_path / "first.jsonl")[1:]
        assert event_lines(tmp_path / "again.jsonl") == event_lines(tmp_path / "first.jsonl")

        sandbox = await Cloche(client).sandbox("sb")
        past = await sandbox.history.tree()
        assert past.tree == story.tree
        assert [event.sequence async for event in sandbox.events(types=["command"])] == [
            each.seq for each in wanted if ".command." in each.subject
        ]
        with pytest.raises(SandboxInvalidState, match="imported from another Cloche: it can only be read"):
            await sandbox.run("true")
        with pytest.raises(SandboxInvalidState):
            await sandbox.stop()
        assert isinstance(sandbox, ImportedSandbox)
        assert isinstance(await view_of(client, "local"), LiveView)


async def _asks_the_same(original: LiveView, view: ArchivedView, sequences: list[int]) -> None:
    """Any question of a log view has the same answer, at any sequence."""
    filters = ["cloche.log.sb.>", "cloche.log.sb.command.*.*", "cloche.log.sb.file.*", "cloche.log.sb.health.>"]
    for filter_ in filters:
        assert _plain(await view.last(filter_)) == _plain(await original.last(filter_))
    for sequence in (sequences[0] - 1, *sequences[::4], sequences[-1]):
        for filter_ in filters:
            first = await view.first(filter_, start=sequence)
            assert _plain(first) == _plain(await original.first(filter_, start=sequence))
        read = [each.seq async for each in view.read(filters[1:3], sequence, end=sequence + 6)]
        assert read == [each.seq async for each in original.read(filters[1:3], sequence, end=sequence + 6)]
        lasts = await view.lasts(filters[1:3], up_to=sequence)
        wanted = await original.lasts(filters[1:3], up_to=sequence)
        assert sorted(each.seq for each in lasts) == sorted(each.seq for each in wanted)


def _plain(entry: reader.Entry | None) -> tuple[object, ...] | None:
    return None if entry is None else entry[:5]


async def test_garbage_that_an_imported_session_names_is_none(two: tuple[Server, Server], tmp_path: Path) -> None:
    here, there = two
    story = await a_proven_session(here)
    view = LiveView(await here.connect("client"))
    await exported(view, tmp_path / "whole.jsonl")
    (tmp_path / "bare").mkdir()
    async with taking_imports(there):
        client = await there.connect("client")
        await import_file(client, tmp_path / "whole.jsonl")
        await exported(view, tmp_path / "bare.jsonl", "noise", blobs=False)
        await import_file(client, tmp_path / "bare.jsonl")
        await import_file(client, _naming_a_false_manifest(tmp_path / "false.jsonl"))
        with pytest.raises(Denied):
            await client.request(subjects.archived("im-1", "cloche.log.sb.file.ready"), b"{}")
    watcher = await there.connect("file_watcher")
    garbage = await Blobs(watcher).put(b"nobody names this")
    swept = await collect_garbage(watcher, tmp_path / "bare", grace_s=0)
    assert swept.removed == 1, "also where the manifests of another import were never here"
    assert not await Blobs(watcher).has(garbage)
    named = {entry.blob for tree in story.trees.values() for entry in tree.values() if entry.blob}
    assert await Blobs(watcher).missing(named) == set()


def _naming_a_false_manifest(file: Path) -> Path:
    """Of another sandbox, whose manifest is one endless line."""
    content = b"x" * (MOST_LINE_BYTES + 10)
    name = hashlib.sha256(content).hexdigest()
    payload = codec.encode(
        Event(
            id="x", source="x", type="file.ready", time=TIME, sandboxid="false", data=FileReady(files=1, manifest=name)
        )
    )
    return written(
        file,
        [
            Header(log="x", sandbox="false", first_sequence=1, last_sequence=1, exported_at=TIME),
            Message(1, "cloche.log.false.file.ready", "x", "2026-01-01T00:00:00Z", payload),
            *pieces(name, content),
        ],
    )


async def test_nothing_is_seen_before_the_last_piece_and_the_same_file_again_completes_it(
    two: tuple[Server, Server], tmp_path: Path
) -> None:
    here, there = two
    await a_proven_session(here)
    file = tmp_path / "sb.jsonl"
    await exported(LiveView(await here.connect("client")), file)
    data = file.read_bytes()
    name, half = import_id(hashlib.sha256(data).hexdigest()), data.index(b'{"blob"') - 100
    client = await there.connect("client")
    async with taking_imports(there) as first:
        for part, piece in enumerate((data[: half // 2], data[half // 2 : half])):
            await first.take(ImportPiece(import_id=name, part=part, data=piece))
        assert await imports(client) == []
        with pytest.raises(SandboxNotFound):
            await Cloche(client).sandbox("sb")
        assert await _archived(there) > 3
    async with taking_imports(there) as second:
        with pytest.raises(Unavailable, match="begin with its first piece"):
            await second.take(ImportPiece(import_id=name, part=2, data=data[half:], last=True))
        stored = await _archived(there)
        await import_file(client, file)
        assert await _archived(there) == len(event_lines(file)) + 1 > stored
        await import_file(client, file)
        assert await _archived(there) == len(event_lines(file)) + 1, "the same once more is nothing new"
        assert [each.sandbox for each in await imports(client)] == ["sb"]


async def _archived(server: Server) -> int:
    info = await (await server.connect("admin")).api("STREAM.INFO.CLOCHE_ARCHIVE")
    return int(info["state"]["messages"])


async def test_parts_of_a_session_are_read_as_one_and_none_replaces_what_is_there(
    two: tuple[Server, Server], tmp_path: Path
) -> None:
    here, there = two
    story = await a_proven_session(here)
    view = LiveView(await here.connect("client"))
    everything = [each async for each in view.read(subjects.events_of("sb"))]
    cuts = [everything[at].seq for at in (0, 9, 20, len(everything) - 1)]
    spans = [Span(cuts[1] + 1, cuts[2]), Span(cuts[0], cuts[1]), Span(cuts[1], cuts[3])]
    async with taking_imports(there):
        client = await there.connect("client")
        for number, span in enumerate(spans):
            await exported(view, tmp_path / f"{number}.jsonl", span=span)
            await import_file(client, tmp_path / f"{number}.jsonl")
        (record,) = await imports(client)
        assert record.events == len(everything)
        assert len(record.parts) == 3
        archived = await view_of(client, "sb")
        assert isinstance(archived, ArchivedView)
        found = [each async for each in archived.read(subjects.events_of("sb"))]
        assert [each[:5] for each in found] == [each[:5] for each in everything]
        await _asks_the_same(view, archived, [each.seq for each in everything])
        at = await tree_at(archived, "sb")
        assert at is not None
        assert at.tree == story.tree


async def test_a_sandbox_that_is_here_already_is_refused(two: tuple[Server, Server], tmp_path: Path) -> None:
    here, there = two
    await a_proven_session(here)
    await exported(LiveView(await here.connect("client")), tmp_path / "sb.jsonl")
    async with taking_imports(here):
        with pytest.raises(Conflict, match="'sb' is one of this Cloche"):
            await import_file(await here.connect("client"), tmp_path / "sb.jsonl")
        assert await _archived(here) == 0
    async with taking_imports(there):
        client = await there.connect("client")
        await import_file(client, tmp_path / "sb.jsonl")
        lines = lines_of(tmp_path / "sb.jsonl")
        header = lines[0]
        assert isinstance(header, Header)
        for log in ("another", ""):
            forged = Header(log=log, sandbox="sb", first_sequence=1, last_sequence=9, exported_at=header.exported_at)
            written(tmp_path / "forged.jsonl", [forged, *lines[1:-1]])
            with pytest.raises(Conflict, match="'sb' has been imported already, from another log"):
                await import_file(client, tmp_path / "forged.jsonl")
        await tell(there, "spawner", "sb", SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node="local"))
        assert isinstance(await view_of(client, "sb"), LiveView)


async def test_whatever_is_wrong_with_a_file_nothing_of_it_is_seen(two: tuple[Server, Server], tmp_path: Path) -> None:
    here, there = two
    await a_proven_session(here)
    await exported(LiveView(await here.connect("client")), tmp_path / "sb.jsonl")
    async with taking_imports(there):
        client = await there.connect("client")
        for why, data in hostile_files(lines_of(tmp_path / "sb.jsonl")):
            (tmp_path / "hostile.jsonl").write_bytes(data)
            with pytest.raises(Invalid, match=why):
                await import_file(client, tmp_path / "hostile.jsonl")
        assert await imports(client) == []
        assert await _archived_subjects(there) <= {"sb", "_"}
        await import_file(client, tmp_path / "sb.jsonl")
        assert [each.sandbox for each in await imports(client)] == ["sb"]


async def _archived_subjects(server: Server) -> set[str]:
    admin = await server.connect("admin")
    info = await admin.api("STREAM.INFO.CLOCHE_ARCHIVE", {"subjects_filter": "cloche.archive.>"})
    return {subject.split(".")[3] for subject in info["state"].get("subjects") or ()}


async def test_a_piece_that_comes_twice_is_one_and_one_that_was_announced_as_another_is_refused(
    two: tuple[Server, Server], tmp_path: Path
) -> None:
    here, there = two
    await a_session(here, steps=1)
    await exported(LiveView(await here.connect("client")), tmp_path / "sb.jsonl")
    data = (tmp_path / "sb.jsonl").read_bytes()
    name, cut = import_id(hashlib.sha256(data).hexdigest()), len(data) // 2
    async with taking_imports(there) as taking:
        with pytest.raises(Invalid, match="not the file that was announced"):
            await taking.take(ImportPiece(import_id="im-other", part=0, data=data, last=True))
        assert (await taking.list(ListImports())).imports == ()
        for part, piece in enumerate((data[:cut], data[cut:])):
            order = ImportPiece(import_id=name, part=part, data=piece, last=part == 1)
            answer = await taking.take(order)
            if part:
                assert await taking.take(order) == answer
        assert answer.sandboxes == ("sb",)
    assert len(data) < PIECE_BYTES


async def test_a_damaged_copy_leaves_nothing_in_the_whole_one_that_is_imported_after_it(
    two: tuple[Server, Server], tmp_path: Path
) -> None:
    here, there = two
    await a_session(here, steps=1)
    view = LiveView(await here.connect("client"))
    await exported(view, tmp_path / "sb.jsonl")
    data = (tmp_path / "sb.jsonl").read_bytes()
    assert b"line 3" in data
    (tmp_path / "damaged.jsonl").write_bytes(data.replace(b"line 3", b"LIES 3")[:-2])
    async with taking_imports(there):
        client = await there.connect("client")
        with pytest.raises(Invalid, match="cut off"):
            await import_file(client, tmp_path / "damaged.jsonl")
        await import_file(client, tmp_path / "sb.jsonl")
        wanted = [each.data async for each in view.read(subjects.events_of("sb"))]
        archived = await view_of(client, "sb")
        assert [each.data async for each in archived.read(subjects.events_of("sb"))] == wanted


@pytest.mark.parametrize("at", [0.5, 0.98])
async def test_a_file_that_cannot_be_unpacked_is_said_to_be_damaged(
    two: tuple[Server, Server], tmp_path: Path, at: float
) -> None:
    here, there = two
    await a_session(here, steps=1)
    file = tmp_path / "sb.jsonl.gz"
    await exported(LiveView(await here.connect("client")), file)
    data = bytearray(file.read_bytes())
    place = int(len(data) * at)
    data[place : place + 8] = b"\xff" * 8
    file.write_bytes(data)
    async with taking_imports(there):
        with pytest.raises(Invalid, match="cannot be read"):
            await import_file(await there.connect("client"), file)


async def test_what_is_no_file_is_refused(two: tuple[Server, Server], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writing = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(writing, b"something")
    client = await two[1].connect("client")
    try:
        for name in ("pipe", ".", "none"):
            with pytest.raises(Invalid, match="cannot read"):
                await import_file(client, tmp_path / name)
    finally:
        os.close(writing)
