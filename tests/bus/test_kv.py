"""The read model's bucket."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from contracts.errors import Invalid
from contracts.streams import SANDBOXES_BUCKET
from infra.bus.errors import Denied
from infra.bus.kv import Bucket, Change
from tests.bus.servers import nats_in


async def test_values_are_kept_and_only_the_newest(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bucket = Bucket(await server.connect("replay"), SANDBOXES_BUCKET)
        assert await bucket.get("sb1") is None
        assert await bucket.all() == {}
        await bucket.put("sb1", b"one")
        await bucket.put("sb2", b"")
        await bucket.put("sb1", b"two")
        assert await bucket.get("sb1") == b"two"
        assert await bucket.all() == {"sb1": b"two", "sb2": b""}
        reading = Bucket(await server.connect("client"), SANDBOXES_BUCKET)
        assert await reading.get("sb1") == b"two"
        with pytest.raises(Denied):
            await reading.put("sb1", b"forged")


@pytest.mark.parametrize(
    "headers", [{"KV-Operation": "DEL"}, {"KV-Operation": "PURGE"}, {"Nats-Marker-Reason": "MaxAge"}]
)
async def test_a_deleted_or_expired_key_is_missing(tmp_path: Path, headers: dict[str, str]) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("replay")
        bucket = Bucket(bus, SANDBOXES_BUCKET)
        await bucket.put("sb1", b"one")
        await bus.request(f"$KV.{SANDBOXES_BUCKET}.sb1", b"", headers=headers)
        assert await bucket.get("sb1") is None
        assert await bucket.all() == {}


@pytest.mark.parametrize("key", ["", "a b", "*", ">", ".a", "a."])
async def test_a_bad_key_is_refused(tmp_path: Path, key: str) -> None:
    async with nats_in(tmp_path) as server:
        with pytest.raises(Invalid):
            await Bucket(await server.connect("replay"), SANDBOXES_BUCKET).put(key, b"")


async def test_a_watcher_sees_what_is_there_and_each_change(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bucket = Bucket(await server.connect("replay"), SANDBOXES_BUCKET)
        watching = Bucket(await server.connect("client"), SANDBOXES_BUCKET)
        await bucket.put("sb1", b"one")
        seen: list[Change] = []
        async with contextlib.aclosing(watching.watch()) as changes:  # type: ignore[type-var]
            async for change in changes:
                seen.append(change)
                if len(seen) == 1:
                    later = asyncio.create_task(bucket.put("sb2", b"two"))
                if len(seen) == 2:
                    break
        await later
        assert seen == [Change("sb1", b"one", 1), Change("sb2", b"two", 2)]
