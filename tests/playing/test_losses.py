"""Replays go on whatever happens to what is kept of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts.replays import Playing
from contracts.streams import ARCHIVE_STREAM, REPLAYS_BUCKET, Limits
from infra.bus.kv import Bucket
from infra.bus.provision import provision
from infra.client import Cloche
from tests.bus.servers import Server, nats_in, until
from tests.playing.past import all_of, playing_on, record, take

FAST = 10_000.0
KV = f"KV_{REPLAYS_BUCKET}"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with nats_in(tmp_path) as server:
        yield server


async def made_again(server: Server, stream: str) -> None:
    async with await server.embedded.connect("admin") as admin:
        await admin.api(f"STREAM.DELETE.{stream}")
        await provision(admin, Limits(), ["local"])


async def test_one_whose_past_cannot_be_found_for_a_while_goes_on_when_it_can(server: Server) -> None:
    sequences = await record(server)
    client = Cloche(await server.connect("client"))
    admin = await server.connect("admin")
    async with playing_on(server), client.replay("sb", paused=True, keep=True) as replay:
        await replay.step(4)
        heard = await take(replay, 4)
    await admin.api(f"STREAM.DELETE.{ARCHIVE_STREAM}")
    async with playing_on(server) as second:
        await until(lambda: [each.record.owner for each in second._shelf.held.values()] == [second._owner])
        await provision(admin, Limits(), ["local"])
        async with client.join(replay.id) as again:
            await again.resume(speed=FAST)
            heard += await all_of(again)
    assert [event.sequence for event in heard] == sequences


@pytest.mark.parametrize("loss", ["bucket", "garbage"])
async def test_one_that_is_paused_outlives_the_bucket_that_it_is_kept_in(server: Server, loss: str) -> None:
    sequences = await record(server)
    client = Cloche(await server.connect("client"))
    async with playing_on(server), client.replay("sb", paused=True) as replay:
        await replay.step(4)
        heard = await take(replay, 4)
        if loss == "bucket":
            await made_again(server, KV)
        else:
            await Bucket(await server.connect("admin"), REPLAYS_BUCKET).put(replay.id, b"{oops")
        await replay.resume(speed=FAST)
        heard += await all_of(replay)
    assert [event.sequence for event in heard] == sequences


async def test_two_services_know_of_each_other_in_a_bucket_that_was_made_again(server: Server) -> None:
    await record(server)
    client = Cloche(await server.connect("client"))
    async with playing_on(server) as first, playing_on(server) as second, client.replay("sb", paused=True) as replay:
        owner, other = (first, second) if replay.id in first._players else (second, first)
        await until(lambda: replay.id in other._shelf.held)
        before = other._shelf.held[replay.id]
        await made_again(server, KV)
        await until(lambda: other._shelf.held.get(replay.id, before) is not before)
        known = await other.record_of(replay.id)
        assert known is not None
        assert known.owner == owner._owner
        assert (await client.replays()).replays[0].playing == Playing.PAUSED
