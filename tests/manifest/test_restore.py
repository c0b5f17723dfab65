import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from contracts.events.file import EntryKind
from contracts.manifest import Entry, Tree
from contracts.spelling import spell
from infra.blobs import layout
from infra.blobs.blobs import Blobs
from infra.blobs.reading import find
from infra.manifest.restore import restore
from infra.manifest.stored import load_manifest, store_manifest
from tests.bus.servers import Server, nats_in
from tests.manifest.disk import kept, plant, taken


async def blobs_of(server: Server) -> Blobs:
    return Blobs(await server.connect("file_watcher"))


def new(path: Path) -> Path:
    path.mkdir()
    return path


def entry(path: bytes, kind: EntryKind, **fields: object) -> Entry:
    text, encoded = spell(path)
    plain = Entry(path=text, path_bytes=encoded, kind=kind, size=0, mode=0o755)
    return msgspec.structs.replace(plain, **fields)


async def test_a_tree_is_restored_exactly_as_it_was(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = await blobs_of(server)
        plant(new(tmp_path / "was"))
        tree = await kept(tmp_path / "was", blobs)
        stored = await store_manifest(blobs, tree, "/workspace")
        again = await load_manifest(blobs, stored.sha256)
        assert (again.tree, again.header.workspace, stored.files) == (tree, "/workspace", len(tree))
        reader = Blobs(await server.connect("spawner"))
        restored = await restore(again.tree, reader, new(tmp_path / "is"))
        assert restored.missing == ()
        assert restored.entries == len(tree)
        assert restored.bytes == stored.bytes
        assert taken(tmp_path / "is") == tree


async def test_what_is_restored_belongs_to_whom_it_is_restored_for(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = await blobs_of(server)
        plant(new(tmp_path / "was"))
        (tmp_path / "was" / "suid").write_text("x")
        (tmp_path / "was" / "suid").chmod(0o4755)
        tree = await kept(tmp_path / "was", blobs)
        await restore(tree, blobs, new(tmp_path / "is"), 65534, 65533)
        owners = {(each.lstat().st_uid, each.lstat().st_gid) for each in (tmp_path / "is").rglob("*")}
        assert owners == {(65534, 65533)}
        assert taken(tmp_path / "is") == tree


async def test_a_manifest_of_many_entries_survives_its_chunks(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = await blobs_of(server)
        paths = [b"directory/file-%05d" % number for number in range(7_000)]
        tree = {path: entry(path, EntryKind.FILE, sha256="0" * 64, blob="0" * 64) for path in paths}
        stored = await store_manifest(blobs, tree, "/w")
        assert (await find(blobs.bus, [stored.sha256]))[stored.sha256].info.chunks > 1
        assert (await load_manifest(blobs, stored.sha256)).tree == tree
        assert await store_manifest(blobs, dict(reversed(tree.items())), "/w") == stored


async def test_what_cannot_be_brought_back_is_named_and_the_rest_is_there(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = await blobs_of(server)
        good, damaged = await blobs.put_many([b"good", b"damaged"])
        nuid = (await find(blobs.bus, [damaged]))[damaged].info.nuid
        await blobs.bus.api(f"STREAM.PURGE.{layout.STREAM}", {"filter": layout.chunks_subject(nuid)})
        tree: Tree = {
            b"good": entry(b"good", EntryKind.FILE, blob=good, size=4),
            b"damaged": entry(b"damaged", EntryKind.FILE, blob=damaged, size=7),
            b"gone": entry(b"gone", EntryKind.FILE, blob="0" * 64, size=7),
            b"unread": entry(b"unread", EntryKind.FILE),
            b"odd": entry(b"odd", EntryKind.FILE, blob="../../x"),
            b"pipe": entry(b"pipe", EntryKind.OTHER),
            b"nowhere/file": entry(b"nowhere/file", EntryKind.FILE, blob=good, size=4),
            b"n" * 300: entry(b"n" * 300, EntryKind.DIRECTORY),
        }
        restored = await restore(tree, blobs, new(tmp_path / "is"))
        assert {each.path for each in restored.missing} == set(tree) - {b"good"}
        assert all(each.reason for each in restored.missing)
        assert [each.name for each in (tmp_path / "is").iterdir()] == ["good"]
        assert (tmp_path / "is" / "good").read_bytes() == b"good"


def hostile(outside: bytes, blob: str) -> Mapping[str, Tree]:
    def link(path: bytes, target: bytes) -> Entry:
        return entry(path, EntryKind.SYMLINK, symlink=target.decode())

    def file(path: bytes) -> Entry:
        return entry(path, EntryKind.FILE, blob=blob, size=4)

    directory = EntryKind.DIRECTORY
    return {
        "dots": {b"../escaped": file(b"../escaped")},
        "absolute": {outside + b"/escaped": file(outside + b"/escaped")},
        "dots inside": {b"a": entry(b"a", directory), b"a/../../escaped": file(b"a/../../escaped")},
        "a link as a parent": {b"a": link(b"a", outside), b"a/escaped": file(b"a/escaped")},
        "a link in a link": {
            b"a": link(b"a", outside),
            b"a/b": entry(b"a/b", directory),
            b"a/b/escaped": file(b"a/b/escaped"),
        },
        "a link through a link": {b"a": link(b"a", outside), b"a/escaped": link(b"a/escaped", b"x")},
        "a file as a parent": {b"a": file(b"a"), b"a/escaped": file(b"a/escaped")},
        "a NUL": {b"a\x00b": file(b"a\x00b"), b"c": link(b"c", b"x\x00y")},
        "nothing": {b"": entry(b"", directory), b".": entry(b".", directory), b"..": entry(b"..", directory)},
        "an empty link": {b"a": link(b"a", b"")},
        "very deep": {
            b"/".join([b"d"] * depth): entry(b"/".join([b"d"] * depth), directory) for depth in range(1, 400)
        },
    }


@pytest.mark.parametrize("which", sorted(hostile(b"", "")))
async def test_a_hostile_tree_writes_nothing_outside(tmp_path: Path, which: str) -> None:
    async with nats_in(tmp_path) as server:
        blobs = await blobs_of(server)
        blob = await blobs.put(b"evil")
        outside = new(tmp_path / "outside")
        before = outside.stat()
        tree = hostile(os.fsencode(outside), blob)[which]
        restored = await restore(tree, blobs, new(tmp_path / "is"))
        assert restored.missing
        assert list(outside.iterdir()) == []
        assert (outside.stat().st_mode, outside.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
        assert not (tmp_path / "escaped").exists()


async def test_nothing_is_restored_over_what_is_there(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = await blobs_of(server)
        (new(tmp_path / "is") / "mine").touch()
        with pytest.raises(FileExistsError):
            await restore({}, blobs, tmp_path / "is")
        (tmp_path / "link").symlink_to(new(tmp_path / "empty"))
        with pytest.raises(NotADirectoryError):
            await restore({}, blobs, tmp_path / "link")
