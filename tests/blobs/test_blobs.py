import asyncio
import hashlib
import random
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest

from contracts.errors import Invalid, Unavailable
from contracts.streams import Limits
from infra.blobs import layout
from infra.blobs.blobs import Blobs
from infra.blobs.errors import BlobDamaged, BlobMissing, StoreFull
from infra.blobs.guarded import append_after
from infra.blobs.layout import CHUNK_BYTES
from infra.blobs.reading import find
from infra.bus.connection import Bus
from infra.bus.errors import Denied
from infra.bus.provision import provision
from tests.blobs.bucket import Contents, contents
from tests.bus.servers import nats_in

SIZES = (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 5 * 1024 * 1024 + 3)
MISSING = "0" * 64


def some_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(f"{seed}.{size}").randbytes(size)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def streamed(blobs: Blobs, name: str) -> bytes:
    return b"".join([chunk async for chunk in blobs.stream(name)])


async def test_what_was_put_is_got_back_whatever_its_size(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs, reader = Blobs(await server.connect("file_watcher")), Blobs(await server.connect("client"))
        data = [some_bytes(size) for size in SIZES]
        names = await blobs.put_many(data)
        assert names == [sha256(each) for each in data]
        for name, each in zip(names, data, strict=True):
            assert await reader.get(name) == each
            assert await streamed(reader, name) == each
        small = {sha256(each): each for each in data if len(each) <= CHUNK_BYTES}
        assert {name: each async for name, each in reader.get_many(names)} == small
        assert await reader.missing([*names, MISSING]) == {MISSING}


@pytest.mark.parametrize("piece", [7_000, CHUNK_BYTES, 2_000_003])
async def test_a_stream_is_stored_in_even_chunks_however_it_comes(tmp_path: Path, piece: int) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        data = some_bytes(3 * CHUNK_BYTES + 5)
        written = await blobs.put_chunks(in_pieces(data, piece))
        assert written == (sha256(data), len(data))
        assert await contents(blobs.bus) == Contents(1, 4)
        assert await blobs.get(written.sha256) == data


async def test_the_same_content_is_stored_once_however_it_is_put(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs, other = Blobs(await server.connect("file_watcher")), Blobs(await server.connect("file_watcher"))
        data = [b"a", b"b", some_bytes(5_000_000)]
        for each in (blobs, other):
            await each.put_many([*data, *data])
            await each.put(data[0])
            await each.put_chunks(in_pieces(data[2], 100_000))
        assert await contents(blobs.bus) == Contents(3, 2 + 10)


async def test_writers_at_the_same_time_store_each_content_once(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        writers = [Blobs(await server.connect("file_watcher")) for _ in range(4)]
        data = [some_bytes(100, seed) for seed in range(300)]
        large = some_bytes(2 * CHUNK_BYTES)
        await asyncio.gather(
            *(each.put_many(random.Random(at).sample(data, len(data))) for at, each in enumerate(writers)),
            *(each.put_chunks(in_pieces(large, 300_000)) for each in writers),
        )
        assert await contents(writers[0].bus) == Contents(301, 302)
        assert await writers[1].get(sha256(large)) == large


async def test_a_killed_server_loses_nothing_and_gets_nothing_twice(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        data = [some_bytes(2_000, seed) for seed in range(3_000)]
        large = some_bytes(20 * CHUNK_BYTES)
        putting = [
            asyncio.create_task(blobs.put_many(data)),
            asyncio.create_task(blobs.put_chunks(in_pieces(large, CHUNK_BYTES))),
        ]
        for _ in range(3):
            await asyncio.wait(putting, timeout=0.1)
            await server.kill_and_wait()
        await asyncio.gather(*putting)
        assert await contents(blobs.bus) == Contents(3_001, 3_020)
        assert {name: each async for name, each in blobs.get_many([sha256(each) for each in data])} == {
            sha256(each): each for each in data
        }
        assert await blobs.get(sha256(large)) == large


async def test_any_client_reads_a_blob_with_its_object_store(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        data = some_bytes(CHUNK_BYTES + 9)
        blobs = Blobs(await server.connect("file_watcher"))
        name, empty = await blobs.put_many([data, b""])
        client = await nats.connect(server.url, user="admin", password=server.password("admin"))
        try:
            store = await client.jetstream().object_store("cloche_blobs")
            assert (await store.get(name)).data == data
            assert (await store.get_info(empty)).size == 0
            assert {info.name for info in await store.list()} == {name, empty}
        finally:
            await client.close()


async def overwritten(bus: Bus, name: str, data: list[bytes]) -> None:
    """An object of this name with chunks that are something else."""
    nuid, last = layout.new_nuid(), 0
    for chunk in data:
        last = await append_after(bus, layout.chunks_subject(nuid), chunk, last)
    info = layout.object_info(name, nuid, sum(map(len, data)), len(data))
    await append_after(bus, layout.object_subject(name), layout.encode_info(info), 0)


@pytest.mark.parametrize("chunks", [[b"tampered"], [b"con", b"tenu"], [b"content", b"t"], [b""]])
async def test_a_blob_with_a_wrong_byte_is_never_handed_over(tmp_path: Path, chunks: list[bytes]) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        name = sha256(b"content")
        await overwritten(blobs.bus, name, chunks)
        with pytest.raises(BlobDamaged):
            await blobs.get(name)
        with pytest.raises(BlobDamaged):
            await streamed(blobs, name)
        assert [each async for each in blobs.get_many([name])] == []


async def test_a_blob_whose_chunks_are_gone_is_damaged_not_empty(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs, admin = Blobs(await server.connect("file_watcher")), await server.connect("admin")
        name = await blobs.put(b"content")
        await admin.api(f"STREAM.PURGE.{layout.STREAM}", {"filter": layout.ALL_CHUNKS})
        with pytest.raises(BlobDamaged):
            await blobs.get(name)


async def test_what_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("client"))
        with pytest.raises(BlobMissing):
            await blobs.get(MISSING)
        assert not await blobs.has(MISSING)
        for hostile in ("", "..", "*", ">", "A" * 64, "0" * 63, f"{'0' * 64}\n"):
            with pytest.raises(Invalid):
                await blobs.get(hostile)


async def test_who_brings_no_contents_cannot_put_any(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        for user in ("client", "executor", "spawner", "gateway", "guardian"):
            blobs = Blobs(await server.connect(user))
            with pytest.raises(Denied):
                await blobs.put(b"mine")
            with pytest.raises(Denied):
                await blobs.put_chunks(in_pieces(b"mine", 2))


async def test_only_the_file_watcher_removes(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        for user in ("client", "executor", "spawner", "replay", "agent", "gateway"):
            blobs = Blobs(await server.connect(user))
            with pytest.raises(Denied):
                await blobs.bus.api(f"STREAM.PURGE.{layout.STREAM}", {})
            with pytest.raises(Denied):
                await blobs.bus.api(f"STREAM.MSG.DELETE.{layout.STREAM}", {"seq": 1})


async def test_content_that_cannot_be_read_to_its_end_leaves_nothing(tmp_path: Path) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield some_bytes(CHUNK_BYTES)
        yield some_bytes(CHUNK_BYTES)
        raise OSError("changed while it was read")

    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        with pytest.raises(OSError, match="changed"):
            await blobs.put_chunks(breaking())
        assert await contents(blobs.bus) == Contents(0, 0)


async def test_too_large_a_blob_is_refused_in_one_piece_and_streamed_in_many(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        name = await blobs.put(some_bytes(1000))
        with pytest.raises(Invalid, match="larger"):
            await blobs.get(name, max_bytes=999)


async def test_a_blob_put_again_after_long_is_renewed_in_its_place(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("file_watcher")
        name = await Blobs(bus).put(b"content")
        old = Blobs(bus, grace_s=0)
        assert await old.put(b"content") == name
        assert (await old.put_chunks(in_pieces(b"content", 3))).sha256 == name
        assert await contents(bus) == Contents(1, 1)
        assert await old.get(name) == b"content"
        info = await (await server.connect("admin")).api(f"STREAM.INFO.{layout.STREAM}")
        assert info["state"]["last_seq"] > 3, "nothing was renewed"


async def test_a_large_stream_is_stored_and_read_in_flat_memory(tmp_path: Path) -> None:
    piece = some_bytes(CHUNK_BYTES)

    async def large() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield piece

    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"))
        tracemalloc.start()
        try:
            written = await blobs.put_chunks(large())
            async for _ in blobs.stream(written.sha256):
                pass
            assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
        finally:
            tracemalloc.stop()


async def test_what_is_renewed_is_new_to_a_sweep_and_what_is_gone_is_said(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs = Blobs(await server.connect("file_watcher"), grace_s=0)
        names = await blobs.put_many([b"%d" % number for number in range(40)])
        before = await find(blobs.bus, names)
        assert await blobs.renew([*names, MISSING]) == {MISSING}
        after = await find(blobs.bus, names)
        assert all(after[name].entry.seq > before[name].entry.seq for name in names)
        assert await Blobs(blobs.bus).renew(names) == set()
        assert {name: each.entry.seq for name, each in (await find(blobs.bus, names)).items()} == {
            name: each.entry.seq for name, each in after.items()
        }


async def test_a_large_upload_whose_chunks_are_lost_ends_and_can_be_put_again(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        blobs, admin = Blobs(await server.connect("file_watcher")), await server.connect("admin")
        data = some_bytes(2 * CHUNK_BYTES)

        async def interrupted() -> AsyncIterator[bytes]:
            yield data[:CHUNK_BYTES]
            await admin.api(f"STREAM.PURGE.{layout.STREAM}", {"filter": layout.ALL_CHUNKS})
            yield data[CHUNK_BYTES:]

        with pytest.raises(Unavailable, match="gone"):
            await asyncio.wait_for(blobs.put_chunks(interrupted()), 20)
        name = await blobs.put(data)
        assert await blobs.get(name) == data


async def test_a_store_that_is_full_says_so_and_keeps_nothing_of_what_had_no_room(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        await provision(admin, Limits(blobs_max_bytes=CHUNK_BYTES * 2), ["local"])
        blobs = Blobs(await server.connect("file_watcher"))
        name = await blobs.put(b"has room")
        before = await contents(admin)

        large = some_bytes(3 * CHUNK_BYTES)
        with pytest.raises(StoreFull):
            await blobs.put_chunks(in_pieces(large, CHUNK_BYTES))
        with pytest.raises(StoreFull):
            await blobs.put_many([some_bytes(CHUNK_BYTES, seed) for seed in range(3)])
        assert await contents(admin) == before
        assert await blobs.put(b"has room") == name
        await provision(admin, Limits(), ["local"])
        assert (await blobs.put_chunks(in_pieces(large, CHUNK_BYTES))).size == len(large)
