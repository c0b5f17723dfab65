"""A store is taken whole while others write to it, and goes into an empty one only: on one server, and on three."""

import asyncio
from pathlib import Path

import pytest

from contracts import subjects
from contracts.errors import Conflict
from contracts.streams import COMMANDS_STREAM, LOG_STREAM, Limits
from infra.backup.contents import ORDER, Backup
from infra.backup.looking import look
from infra.backup.putting_back import ours, refuse_what_is_there, restore
from infra.backup.taking import take
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.page import Entry
from infra.bus.provision import apply, plan, wanted
from infra.bus.publisher import append
from infra.settings import Settings
from tests.audit.rig import write
from tests.bus.servers import nats_in
from tests.cluster.servers import cluster_in

THREE = Limits(replicas=3)
ONE = wanted(Limits(), ["local"])
ORDER_ID = "client.order"


async def events(bus: Bus) -> list[Entry]:
    """Without what the server says of the rest of the log in their headers."""
    return [entry._replace(headers=b"") async for entry in reader.read(bus, [subjects.LOG], follow=False)]


async def taken_while_writing(admin: Bus, executor: Bus, settings: Settings, path: Path) -> Backup:
    """With an order that nobody has obeyed."""
    await write(executor, 200, size=5000)
    order = "cloche.cmd.local.sb-1.command.run"
    await append(admin, order, b"{}", ORDER_ID, stream=COMMANDS_STREAM)
    writing = asyncio.create_task(write(executor, 100_000, name="more", size=5000))
    try:
        return await take(settings, admin, path)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_what_was_stored_when_it_was_taken_is_in_it_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "backup"
    async with nats_in(tmp_path / "one") as server:
        admin, executor = await server.connect("admin"), await server.connect("executor")
        backup = await taken_while_writing(admin, executor, Settings(data=server.data), path)
        before = await events(executor)
    assert look(path) == backup
    assert backup.last_sequence >= 200
    async with nats_in(tmp_path / "two", provisioned=False) as server:
        admin = await server.connect("admin")
        await refuse_what_is_there(admin)
        await restore(admin, backup, ours(backup, ONE))
        after = await events(await server.connect("executor"))
        assert after == before[: len(after)]
        assert len(after) == backup.last_sequence
        changes = await plan(admin, ONE)
        others = [change.what for change in changes if "consumer" not in change.what]
        assert others == ["create stream CLOCHE_VITALS"], "all else is as it was"
        await apply(admin, changes)
        orders = await admin.api(f"CONSUMER.INFO.{COMMANDS_STREAM}.executor-local")
        assert orders["num_pending"] == 1, "the order waits for whoever obeys it"
        assert await write(await server.connect("executor"), 1, name="next") == len(after) + 1


async def test_it_goes_into_an_empty_store_only_and_all_of_it_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "backup"
    async with nats_in(tmp_path / "one") as server:
        admin, executor = await server.connect("admin"), await server.connect("executor")
        await write(executor, 3)
        backup = await take(Settings(data=server.data), admin, path)
        with pytest.raises(Conflict, match="CLOCHE_LOG holds 3 messages"):
            await refuse_what_is_there(admin)
        assert len(await events(executor)) == 3
    async with nats_in(tmp_path / "two") as server:
        admin = await server.connect("admin")
        await refuse_what_is_there(admin)
        await admin.api(f"STREAM.CREATE.{ORDER[-1]}", {"name": ORDER[-1], "subjects": ["in.the.way"]})
        with pytest.raises(Exception, match="already in use"):
            await restore(admin, backup, ours(backup, ONE))
        names = (await admin.api("STREAM.NAMES"))["streams"] or []
        assert set(names) & set(ORDER) <= {ORDER[-1]}


async def test_three_servers_are_taken_and_put_back_with_three_copies_and_with_one(tmp_path: Path) -> None:
    path = tmp_path / "backup"
    async with cluster_in(tmp_path / "three", limits=THREE) as cluster:
        admin, executor = await cluster.connect("admin"), await cluster.connect("executor")
        settings = Settings(data=tmp_path / "own", limits=THREE)
        backup = await taken_while_writing(admin, executor, settings, path)
        before = await events(executor)
        for name in (*ORDER, "CLOCHE_VITALS"):
            await admin.api(f"STREAM.DELETE.{name}")
        await refuse_what_is_there(admin)
        await restore(admin, backup, ours(backup, wanted(THREE, [])))
        after = await events(executor)
        assert after == before[: len(after)]
        assert len(after) == backup.last_sequence
        assert (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]["num_replicas"] == 3
    async with nats_in(tmp_path / "one", provisioned=False) as server:
        admin = await server.connect("admin")
        await restore(admin, backup, ours(backup, ONE))
        assert await events(await server.connect("executor")) == after
