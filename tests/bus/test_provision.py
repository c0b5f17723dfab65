"""Provisioning makes the server agree with the contracts, and never weakens the log."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts import streams
from contracts.errors import ClocheError, Invalid
from contracts.streams import Limits
from infra.bus.errors import ApiError
from infra.bus.log_guard import FORBIDDEN_ON_LOG
from infra.bus.provision import May, Wanted, apply, plan, provision, wanted
from infra.bus.publisher import append
from infra.bus.stream_config import stream_config
from tests.bus.servers import nats_in, stored


def _log(**changes: Any) -> Wanted:
    return Wanted(streams=(stream_config(streams.log(Limits())) | changes,), consumers=())


async def test_the_plan_is_told_and_the_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        want = wanted(Limits(), ["local", "other"])
        changes = await plan(admin, want)
        told: list[str] = []
        await apply(admin, changes, tell=told.append)
        assert "create stream CLOCHE_LOG" in told
        assert "create consumer CLOCHE_COMMANDS.executor-other" in told
        assert await plan(admin, want) == []


async def test_the_server_has_what_the_contract_says(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        log = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
        assert log["deny_delete"]
        assert log["deny_purge"]
        assert log["allow_direct"]
        assert log["max_consumers"] == 100_000
        assert not any(log.get(field) for field in FORBIDDEN_ON_LOG)
        commands = (await admin.api("STREAM.INFO.CLOCHE_COMMANDS"))["config"]
        assert commands["retention"] == "workqueue"
        assert commands["duplicate_window"] == 120_000_000_000
        assert (await admin.api("STREAM.INFO.CLOCHE_VITALS"))["config"]["persist_mode"] == "async"
        offers = (await admin.api("CONSUMER.INFO.CLOCHE_COMMANDS.spawner-any"))["config"]
        assert offers["max_deliver"] == -1
        durable = (await admin.api("CONSUMER.INFO.CLOCHE_COMMANDS.spawner-local"))["config"]
        assert durable["max_deliver"] == 1000
        assert durable["ack_policy"] == "explicit"


async def test_a_new_limit_is_migrated(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        changes = await provision(admin, Limits(log_max_bytes=10**9), ["local"])
        assert [change.what for change in changes] == ["change stream CLOCHE_LOG: max_bytes -1 → 1000000000"]
        assert (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]["max_bytes"] == 10**9


async def test_a_changed_consumer_is_migrated(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        spec = msgspec.structs.replace(streams.create_consumer(), ack_wait_s=9)
        changes = await plan(admin, Wanted(streams=(), consumers=(spec,)))
        assert "ack_wait" in changes[0].what
        await apply(admin, changes)
        assert await plan(admin, Wanted(streams=(), consumers=(spec,))) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("deny_delete", False),
        ("deny_purge", False),
        ("allow_direct", False),
        ("storage", "memory"),
        ("retention", "interest"),
        *((field, True) for field in FORBIDDEN_ON_LOG),
    ],
)
async def test_a_weaker_log_is_refused_by_name(tmp_path: Path, field: str, value: object) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        with pytest.raises(Invalid, match=field):
            await plan(admin, _log(**{field: value}))


async def test_limits_below_what_is_stored_need_to_be_asked_for(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin, bus = await server.connect("admin"), await server.connect("executor")
        for number in range(10):
            await append(bus, "cloche.log.sb.command.output", bytes(1000), f"m{number}")
        with pytest.raises(Invalid, match="max_bytes"):
            await plan(admin, _log(max_bytes=5000))
        with pytest.raises(Invalid, match="max_age"):
            await plan(admin, _log(max_age=10**9))
        with pytest.raises(Invalid, match="subjects"):
            await plan(admin, _log(subjects=["cloche.log.other.>"]))
        await apply(admin, await plan(admin, _log(max_bytes=5000), May(drop=True)))
        assert await stored(admin) < 10


async def test_a_log_that_somebody_weakened_is_strengthened_again(tmp_path: Path) -> None:
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        weak = stream_config(streams.log(Limits())) | {"allow_rollup_hdrs": True, "deny_purge": False}
        await admin.api("STREAM.CREATE.CLOCHE_LOG", weak)
        changes = await provision(admin, Limits(), [])
        assert "allow_rollup_hdrs" in changes[0].what
        config = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
        assert not config["allow_rollup_hdrs"]
        assert config["deny_purge"]


async def test_the_server_refuses_deletes_and_purges_even_to_the_admin(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin, bus = await server.connect("admin"), await server.connect("executor")
        await append(bus, "cloche.log.sb.command.output", b"", "m")
        for request, body in (("STREAM.MSG.DELETE", {"seq": 1}), ("STREAM.PURGE", {})):
            with pytest.raises(ApiError):
                await admin.api(f"{request}.CLOCHE_LOG", body)
        config = (await admin.api("STREAM.INFO.CLOCHE_LOG"))["config"]
        for field in ("deny_delete", "deny_purge"):
            with pytest.raises(ApiError):
                await admin.api("STREAM.UPDATE.CLOCHE_LOG", config | {field: False})
        assert await stored(admin) == 1


@pytest.mark.parametrize(
    "headers", [{"Nats-Rollup": "all"}, {"Nats-Rollup": "sub"}, {"Nats-TTL": "1"}, {"Nats-Schedule": "@every 1s"}]
)
async def test_no_header_can_erase_or_schedule(tmp_path: Path, headers: dict[str, str]) -> None:
    async with nats_in(tmp_path) as server:
        admin, bus = await server.connect("admin"), await server.connect("executor")
        await append(bus, "cloche.log.sb.command.output", b"", "m")
        reply = await bus.request("cloche.log.sb.command.output", b"", headers=headers)
        assert b"error" in reply.data
        assert await stored(admin) == 1


async def test_only_the_admin_can_provision(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("spawner")
        with pytest.raises(ClocheError):
            await provision(bus, Limits(log_max_bytes=10**9), ["local"])


async def test_one_server_cannot_keep_three_copies(tmp_path: Path) -> None:
    async with nats_in(tmp_path, provisioned=False) as server:
        admin = await server.connect("admin")
        with pytest.raises(Invalid, match="3 replicas need 3 servers, and this one is no part of a cluster"):
            await provision(admin, Limits(replicas=3), ["local"])
