"""The server itself holds who may write what."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from contracts.errors import ClocheError, Unavailable
from contracts.registry import COMMANDS
from contracts.subjects import FAMILIES as EVENT_FAMILIES
from infra.bus.connection import connect
from infra.bus.errors import Denied, NobodyAnswers
from infra.bus.publisher import append
from infra.embedded.users import FAMILIES
from tests.bus.servers import Server, nats_in, stored

WRITERS = [(user, family) for user, families in FAMILIES.items() for family in families]
STREAM_REQUESTS = (
    "STREAM.CREATE.X", "STREAM.UPDATE.CLOCHE_LOG", "STREAM.DELETE.CLOCHE_LOG", "STREAM.PURGE.CLOCHE_LOG",
    "STREAM.MSG.DELETE.CLOCHE_LOG", "CONSUMER.CREATE.CLOCHE_LOG.mine", "CONSUMER.CREATE.CLOCHE_COMMANDS.mine",
    "CONSUMER.DURABLE.CREATE.CLOCHE_COMMANDS.mine", "CONSUMER.DELETE.CLOCHE_COMMANDS.spawner-any",
    "CONSUMER.PAUSE.CLOCHE_COMMANDS.spawner-any", "STREAM.SNAPSHOT.CLOCHE_LOG", "STREAM.RESTORE.CLOCHE_LOG",
)  # fmt: skip


def test_every_family_has_exactly_one_writer() -> None:
    written = [family for families in FAMILIES.values() for family in families]
    assert sorted(written) == sorted(EVENT_FAMILIES)


async def test_each_user_writes_its_own_families_and_no_other(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        for user, own in FAMILIES.items():
            bus = await server.connect(user)
            for family in EVENT_FAMILIES:
                subject = f"cloche.log.sb1.{family}.happened"
                if family in own:
                    assert (await append(bus, subject, b"{}", f"{user}.{family}", timeout_s=10)).seq
                else:
                    with pytest.raises(Denied):
                        await append(bus, subject, b"{}", f"{user}.{family}", timeout_s=10)
        admin = await server.connect("admin")
        assert await stored(admin) == len(WRITERS)


async def test_a_dead_letter_is_written_under_ones_own_name_only(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        executor = await server.connect("executor")
        await append(executor, "cloche.log.sb.dead_letter.executor", b"{}", "a", timeout_s=10)
        await append(executor, "cloche.log.sb.dead_letter.executor.cmd1", b"{}", "b", timeout_s=10)
        with pytest.raises(Denied):
            await append(executor, "cloche.log.sb.dead_letter.spawner", b"{}", "c", timeout_s=10)


async def test_only_those_who_command_may_publish_commands(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        for user in ("client", "gateway", "agent"):
            bus = await server.connect(user)
            await append(bus, "cloche.cmd.local.sb.command.run", b"{}", user, stream="CLOCHE_COMMANDS", timeout_s=10)
        for user in ("spawner", "executor", "replay", "egress", "file_watcher", "health_monitor", "guardian"):
            bus = await server.connect(user)
            with pytest.raises(Denied):
                await append(bus, "cloche.cmd.local.sb.command.run", b"{}", user, timeout_s=10)


@pytest.mark.parametrize(
    ("user", "tags"),
    [
        ("health_monitor", {"sandbox.stop", "sandbox.recover"}),
        ("guardian", {"agent.guidance", "agent.interrupt", "agent.pause", "sandbox.stop"}),
        ("spawner", {"sandbox.recover"}),
        ("agent", {tag for tag in COMMANDS if tag.startswith("command.")}),
        ("gateway", {tag for tag in COMMANDS if not tag.startswith(("node.", "audit."))}),
    ],
)
async def test_each_orders_what_it_must_and_nothing_else(tmp_path: Path, user: str, tags: set[str]) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect(user)
        for tag in sorted(COMMANDS):
            subject = f"cloche.cmd.local.sb.{tag}"
            if tag in tags:
                await append(bus, subject, b"{}", tag, stream="CLOCHE_COMMANDS", timeout_s=10)
            else:
                with pytest.raises(Denied):
                    await append(bus, subject, b"{}", tag, timeout_s=10)


async def test_whoever_tells_of_sandboxes_cannot_show_signs_of_life_of_a_node(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("health_monitor")
        await append(bus, "cloche.vitals.sb.metrics", b"{}", "a", stream="CLOCHE_VITALS", timeout_s=10)
        for subject in ("cloche.vitals._.node.local", "cloche.vitals._.duty.replay"):
            with pytest.raises(Denied):
                await append(bus, subject, b"{}", subject, stream="CLOCHE_VITALS", timeout_s=10)


async def test_nobody_but_the_admin_manages_streams_and_consumers(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        for user in FAMILIES:
            bus = await server.connect(user)
            for request in STREAM_REQUESTS:
                for prefix in ("$JS.API", "cloche.api"):
                    with pytest.raises(Denied):
                        await bus.request(f"{prefix}.{request}", b"{}")


async def test_only_the_spawner_deletes_a_command(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        client, spawner = await server.connect("client"), await server.connect("spawner")
        ack = await append(client, "cloche.cmd.nowhere.sb.command.run", b"", "x", stream="CLOCHE_COMMANDS")
        with pytest.raises(Denied):
            await client.api("STREAM.MSG.DELETE.CLOCHE_COMMANDS", {"seq": ack.seq})
        assert (await spawner.api("STREAM.MSG.DELETE.CLOCHE_COMMANDS", {"seq": ack.seq}))["success"]


async def test_a_service_pulls_from_its_own_consumer_only(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        executor = await server.connect("executor")
        with pytest.raises(Denied):
            await executor.request("cloche.api.CONSUMER.MSG.NEXT.CLOCHE_COMMANDS.spawner-any", b"1")
        with pytest.raises(Denied):
            await executor.request("$JS.ACK.CLOCHE_COMMANDS.spawner-any.1.1.1.1.0", b"+ACK")
        own = "cloche.api.CONSUMER.MSG.NEXT.CLOCHE_COMMANDS.executor-local"
        assert (await executor.request(own, b'{"no_wait": true}')).status == 404


@pytest.mark.parametrize("user", ["client", "spawner", "executor"])
async def test_a_reply_subject_cannot_be_used_to_write_or_to_delete(tmp_path: Path, user: str) -> None:
    """The server sends its answers wherever a request says, unchecked. Accounts are what keeps them at home."""
    async with nats_in(tmp_path) as server:
        bus, admin = await server.connect(user), await server.connect("admin")
        await append(await server.connect("spawner"), "cloche.log.sb.sandbox.created", b"{}", "real")
        targets = (
            "cloche.log.sb.sandbox.removed", "cloche.log.sb.command.output", "cloche.log.sb.agent.message",
            "$KV.cloche_sandboxes.sb", "$JS.API.STREAM.DELETE.CLOCHE_LOG", "cloche.api.STREAM.DELETE.CLOCHE_LOG",
        )  # fmt: skip
        requests = (
            ("cloche.cmd.any.sb.sandbox.create", b"forged"),
            ("cloche.api.STREAM.INFO.CLOCHE_LOG", b""),
            ("cloche.api.DIRECT.GET.CLOCHE_LOG", b'{"seq": 1}'),
            ("cloche.api.DIRECT.GET.CLOCHE_LOG", b'{"seq": 99}'),
            ("cloche.api.CONSUMER.MSG.NEXT.CLOCHE_COMMANDS.spawner-any", b"1"),
        )
        for subject, payload in requests:
            for target in targets:
                await bus.client.publish(subject, payload, reply=target)
        await bus.client.flush()
        await admin.client.flush()
        assert await stored(admin) == 1
        assert await stored(admin, "KV_cloche_sandboxes") == 0


async def test_within_the_account_of_the_streams_a_reply_subject_does_write(tmp_path: Path) -> None:
    """Why users have accounts of their own. If this ever fails the server has closed the hole itself."""
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        await admin.client.publish("$JS.API.STREAM.INFO.CLOCHE_LOG", b"", reply="cloche.log.sb.sandbox.removed")
        async with asyncio.timeout(10):
            while not await stored(admin):
                await admin.client.flush()


async def test_a_push_consumer_cannot_deliver_back_into_the_log(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        admin = await server.connect("admin")
        config = {"name": "forge", "deliver_subject": "cloche.log.sb.sandbox.removed", "ack_policy": "none"}
        with pytest.raises(ClocheError, match="cycle"):
            await admin.api("CONSUMER.CREATE.CLOCHE_LOG.forge", {"stream_name": "CLOCHE_LOG", "config": config})


async def test_nobody_hears_what_another_is_answered(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        spawner, client = await server.connect("spawner"), await server.connect("client")
        heard: list[bytes] = []
        for inbox in ("_INBOX_spawner.>", "_INBOX.>", ">"):
            with contextlib.suppress(ClocheError):
                await client.tap(inbox, lambda _subject, _reply, data, _headers: heard.append(data))
        await append(spawner, "cloche.log.sb.sandbox.created", b"{}", "x")
        await client.client.flush()
        assert heard == []


async def test_a_wrong_password_is_a_clear_error(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        with pytest.raises(Unavailable, match="refuses user 'client'"):
            await connect(server.url, "client", "wrong", "test", patience_s=5)


async def test_any_nats_client_hears_the_log_and_commands_with_the_default_inbox(tmp_path: Path) -> None:
    import nats

    async with nats_in(tmp_path) as server:
        plain = await nats.connect(server.url, user="client", password=server.password("client"))
        heard = await plain.subscribe("cloche.log.sb.>")
        await plain.flush()
        ack = await plain.request("cloche.cmd.any.sb.sandbox.create", b"{}", headers={"Nats-Msg-Id": "c1"})
        assert json.loads(ack.data)["stream"] == "CLOCHE_COMMANDS"
        await append(await server.connect("spawner"), "cloche.log.sb.sandbox.created", b"{}", "x")
        assert (await heard.next_msg(timeout=10)).subject == "cloche.log.sb.sandbox.created"
        await plain.close()


async def test_requests_reach_their_service_and_its_answer_the_asker(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        await _serve(server, "executor", "cloche.rpc.local.*.files.>")
        await _serve(server, "spawner", "cloche.rpc.local.*.git.*")
        await _serve(server, "replay", "cloche.rpc.state.>")
        client = await server.connect("client")
        assert (await client.request("cloche.rpc.local.sb.files.read", b"x")).data == b"executor"
        assert (await client.request("cloche.rpc.local.sb.git.diff", b"x")).data == b"spawner"
        assert (await client.request("cloche.rpc.state.sandboxes", b"x")).data == b"replay"
        with pytest.raises(Denied):
            await client.request("cloche.replay.r1.sb.sandbox.created", b"x")
        agent = await server.connect("agent")
        assert (await agent.request("cloche.rpc.local.sb.files.read", b"x")).data == b"executor"


NOBODYS = ["files.write", "git.commit", "watch.flush", "egress.policy"]


@pytest.mark.parametrize("user", ["guardian", "health_monitor", "agent"])
async def test_whoever_has_no_use_for_an_answer_may_not_ask(tmp_path: Path, user: str) -> None:
    mine = {"files.write"} if user == "agent" else set[str]()
    async with nats_in(tmp_path) as server:
        bus = await server.connect(user)
        for subject in (
            "cloche.rpc.state.sandbox",
            *(f"cloche.rpc.local.sb.{each}" for each in NOBODYS if each not in mine),
        ):
            with pytest.raises(Denied):
                await bus.request(subject, b"x")


async def test_nobody_but_the_spawner_answers_about_worktrees(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        for user in ("client", "executor", "replay"):
            await _serve(server, user, "cloche.rpc.local.*.git.*")
        with pytest.raises(NobodyAnswers):
            await (await server.connect("gateway")).request("cloche.rpc.local.sb.git.diff", b"x")
        with pytest.raises(Denied):
            await (await server.connect("executor")).request("cloche.rpc.local.sb.git.diff", b"x")


async def _serve(server: Server, user: str, subject: str) -> None:
    bus = await server.connect(user)

    def respond(_subject: bytes, reply: bytes, _data: bytes, _headers: bytes | None) -> None:
        asyncio.get_running_loop().create_task(bus.publish(reply.decode(), user.encode()))

    await bus.tap(subject, respond)
