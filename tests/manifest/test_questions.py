"""`cloche.rpc.state.files` and `.file`, answered from a real log and real blobs."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contracts import codec
from contracts.changes import alone, compare, told
from contracts.errors import ClocheError, Invalid, SandboxFileNotFound, from_failure
from contracts.events.file import EntryKind
from contracts.history import MAX_CONTENT_BYTES, FileAt, FilesAt, ListFilesAt, ReadFileAt
from contracts.manifest import Entry, Tree
from contracts.message import Order
from contracts.payload import unpack
from contracts.queries import ANSWERS, Reply
from contracts.spelling import spell
from infra.blobs import layout
from infra.blobs.blobs import Blobs
from services.replay import files as files_in_time
from services.replay.files import FilesInTime
from services.replay.handlers import Historian
from tests.bus.servers import nats_in
from tests.manifest.story import WORKSPACE, Story

VERBS = {ListFilesAt: "files", ReadFileAt: "file"}


class Asked:
    def __init__(self, story: Story, historian: Historian) -> None:
        self.story = story
        self._historian = historian

    async def ask(self, query: Order) -> Any:
        verb = VERBS[type(query)]
        reply: Reply = codec.decode(await self._historian.answer(verb, codec.encode(query)), Reply)
        if reply.failure:
            raise from_failure(reply.failure)
        return codec.decode(reply.result, ANSWERS[verb])

    async def pages(self, **fields: Any) -> list[FilesAt]:
        found: list[FilesAt] = []
        after, at = None, fields.pop("at", None)
        while not found or after is not None:
            page: FilesAt = await self.ask(ListFilesAt(sandbox="sb", at=at, after=after, **fields))
            found.append(page)
            after, at = page.next, page.sequence
        return found

    async def paths(self, **fields: Any) -> list[bytes]:
        return [entry.raw_path for page in await self.pages(**fields) for entry in page.entries]

    async def content(self, path: str, step: int = MAX_CONTENT_BYTES, **fields: Any) -> bytes:
        data = b""
        while True:
            query = ReadFileAt(sandbox="sb", path=path, offset=len(data), max_bytes=step, **fields)
            answer: FileAt = await self.ask(query)
            data += unpack(answer.data, answer.encoding)
            if not answer.more:
                return data


@asynccontextmanager
async def asked(directory: Path) -> AsyncIterator[Asked]:
    async with nats_in(directory) as server:
        story = Story(Blobs(await server.connect("file_watcher")))
        yield Asked(story, Historian(FilesInTime(await server.connect("replay")).answers()))


async def put(story: Story, files: dict[bytes, bytes | None]) -> int:
    """Tells of files with these contents; None is a directory."""
    old = dict(story.tree)
    for path, content in files.items():
        text, encoded = spell(path)
        if content is None:
            entry = Entry(path=text, path_bytes=encoded, kind=EntryKind.DIRECTORY, size=0, mode=0o755)
        else:
            blob = await story.blobs.put(content)
            entry = Entry(
                path=text,
                path_bytes=encoded,
                kind=EntryKind.FILE,
                size=len(content),
                mode=0o644,
                sha256=blob,
                blob=blob,
            )
        story.tree[path] = entry
    sequence = 0
    for each in compare(old, story.tree):
        sequence = await story.tell(alone(told(each, WORKSPACE)))
    return sequence


async def test_every_page_of_every_moment_is_the_tree_of_that_moment(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        await asker.story.ready()
        for _ in range(25):
            await asker.story.step()
        for sequence, tree in asker.story.trees.items():
            pages = await asker.pages(at=sequence, limit=3)
            assert {page.sequence for page in pages} == {sequence}
            assert {page.workspace for page in pages} == {WORKSPACE}
            found: Tree = {entry.raw_path: entry for page in pages for entry in page.entries}
            assert found == tree
            assert list(found) == sorted(tree)
        assert {entry.raw_path: entry for page in await asker.pages() for entry in page.entries} == asker.story.tree


async def test_a_directory_is_listed_with_all_beneath_or_only_what_is_in_it(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        await asker.story.ready()
        paths = [b"a", b"a-b", b"a/x", b"a/x/1", b"a/x/2", b"a/y", b"a0", b"b", b"b/caf\xe9"]
        await put(asker.story, dict.fromkeys(paths))
        for limit in (1, 2, 1000):
            assert await asker.paths(limit=limit) == paths
            assert await asker.paths(limit=limit, recursive=False) == [b"a", b"a-b", b"a0", b"b"]
            assert await asker.paths(limit=limit, path="a", recursive=False) == [b"a/x", b"a/y"]
            assert await asker.paths(limit=limit, path="/workspace/a/") == [b"a/x", b"a/x/1", b"a/x/2", b"a/y"]
        assert await asker.paths(path="a-b") == []
        encoded = base64.b64encode(b"/workspace/b/caf\xe9").decode()
        await put(asker.story, {b"b/caf\xe9": b"latin"})
        assert await asker.paths(path="ignored", path_bytes=encoded) == [b"b/caf\xe9"]
        assert await asker.paths(path="/workspace") == paths


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../b", "a//b", "/workspace/../etc", "/workspace2/a"])
async def test_a_path_outside_of_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    async with asked(tmp_path) as asker:
        await asker.story.ready()
        for query in (ListFilesAt(sandbox="sb", path=path), ReadFileAt(sandbox="sb", path=path)):
            with pytest.raises(Invalid):
                await asker.ask(query)


async def test_what_was_not_there_then_is_said_not_to_have_been(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        with pytest.raises(SandboxFileNotFound, match="on record"):
            await asker.ask(ListFilesAt(sandbox="sb"))
        ready = await asker.story.ready()
        made = await put(asker.story, {b"a": b"content"})
        assert await asker.content("a", at=made) == b"content"
        for path, at in (("a", ready), ("b", made), ("a/b", made)):
            with pytest.raises(SandboxFileNotFound):
                await asker.content(path, at=at)
        with pytest.raises(Invalid, match="the log ends"):
            await asker.ask(ListFilesAt(sandbox="sb", at=made + 1))


async def test_content_is_read_as_it_was_piece_by_piece(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        await asker.story.ready()
        large = os.urandom(3 * layout.CHUNK_BYTES + 17)
        first = await put(asker.story, {b"large": large, b"empty": b"", b"text": "grüß\n".encode()})
        second = await put(asker.story, {b"large": b"small now"})
        assert await asker.content("large", at=first) == large
        assert await asker.content("large", step=100_003, at=first) == large
        assert await asker.content("/workspace/large", at=second) == b"small now"
        assert await asker.content("empty") == b""
        assert await asker.content("text", step=3) == "grüß\n".encode()
        beyond: FileAt = await asker.ask(ReadFileAt(sandbox="sb", path="text", offset=1000))
        assert (beyond.data, beyond.more) == ("", False)


async def test_what_is_not_a_file_or_was_not_kept_has_no_content(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        asker.story.tree = {
            b"d": Entry(path="d", kind=EntryKind.DIRECTORY, size=0, mode=0o755),
            b"l": Entry(path="l", kind=EntryKind.SYMLINK, size=1, mode=0o777, symlink="/etc/passwd"),
            b"f": Entry(path="f", kind=EntryKind.FILE, size=1, mode=0o644),
        }
        await asker.story.ready()
        with pytest.raises(Invalid, match="was a directory"):
            await asker.content("d")
        with pytest.raises(Invalid, match="symlink to /etc/passwd"):
            await asker.content("l")
        with pytest.raises(SandboxFileNotFound, match="not kept"):
            await asker.content("f")


async def test_a_damaged_content_is_never_answered_with(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        await asker.story.ready()
        large = os.urandom(2 * layout.CHUNK_BYTES)
        await put(asker.story, {b"large": large})
        assert await asker.content("large") == large
        await asker.story.blobs.bus.api(f"STREAM.PURGE.{layout.STREAM}", {"filter": layout.ALL_CHUNKS, "keep": 1})
        for _ in range(2):
            with pytest.raises(ClocheError) as refused:
                await asker.content("large")
            assert refused.value.__class__ is ClocheError
            assert "blob" in refused.value.message


async def test_a_large_tree_comes_in_pages_that_fit_into_a_message(tmp_path: Path) -> None:
    async with asked(tmp_path) as asker:
        deep = b"d" * 200
        asker.story.tree = {
            path: Entry(path=path.decode(), kind=EntryKind.DIRECTORY, size=0, mode=0o755)
            for path in (b"/".join([deep] * 15) + b"%04d" % number for number in range(1000))
        }
        await asker.story.ready()
        pages = await asker.pages()
        assert len(pages) > 1
        assert sum(len(page.entries) for page in pages) == 1000
        assert all(len(codec.encode(page)) < 1_000_000 for page in pages)


async def test_a_tree_that_takes_long_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = asyncio.Event(), asyncio.Event()
    build = FilesInTime._build

    async def held_up(self: FilesInTime, sandbox: str, sequence: int) -> files_in_time._Listed:
        if sandbox == "large":
            begun.set()
            await released.wait()
        return await build(self, sandbox, sequence)

    monkeypatch.setattr(FilesInTime, "_build", held_up)
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        for sandbox in ("large", "small"):
            await Story(blobs, sandbox).ready()
        files = FilesInTime(await server.connect("replay"))
        long = asyncio.create_task(files.list(ListFilesAt(sandbox="large")))
        await begun.wait()
        async with asyncio.timeout(10):
            assert (await files.list(ListFilesAt(sandbox="small"))).entries == ()
        assert not long.done()
        released.set()
        assert (await long).entries == ()
