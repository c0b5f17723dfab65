"""Three servers with three copies of everything: who is let in, what a kill costs, how a node is added."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from msgspec.structs import replace

from contracts.errors import Unavailable
from contracts.streams import Limits
from contracts.subjects import FAMILIES as EVENT_FAMILIES
from infra.access import open_as
from infra.bus import tls
from infra.bus.connection import connect
from infra.bus.errors import Denied, NobodyAnswers
from infra.bus.out_stream import OutStream
from infra.bus.publisher import append
from infra.bus.survey import survey
from infra.embedded.users import FAMILIES
from infra.nats import addresses
from infra.nats.certificates import Authority
from infra.settings import Durability
from services.cli.looking_at_servers import less_durable, look
from tests.bus.servers import stored, until
from tests.cluster.command_line import cloche
from tests.cluster.servers import NAMES, READY_S, Cluster, cluster_in

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with cluster_in(tmp_path_factory.mktemp("cluster"), limits=Limits(replicas=3)) as made:
        yield made


async def test_each_user_writes_its_own_families_and_no_other_at_any_server(cluster: Cluster) -> None:
    admin = await cluster.connect("admin")
    before = await stored(admin)
    written = 0
    for number, (user, own) in enumerate(FAMILIES.items()):
        bus = await cluster.connect(user, only=[NAMES[number % 3]])
        for family in EVENT_FAMILIES:
            subject = f"cloche.log.sb1.{family}.happened"
            if family in own:
                assert (await append(bus, subject, b"{}", f"{user}.{family}", timeout_s=READY_S)).seq
                written += 1
            else:
                with pytest.raises(Denied):
                    await append(bus, subject, b"{}", f"{user}.{family}", timeout_s=READY_S)
        for request in ("STREAM.PURGE.CLOCHE_LOG", "STREAM.UPDATE.CLOCHE_LOG", "CONSUMER.CREATE.CLOCHE_LOG.mine"):
            with pytest.raises((Denied, NobodyAnswers)):
                await bus.api(request, {})
        await bus.aclose()
    assert await stored(admin) == before + written


async def test_the_system_user_sees_every_server_and_how_durable_it_is(cluster: Cluster) -> None:
    system = await cluster.connect("system")
    found = await survey(system)
    assert [server.name for server in found] == list(NAMES)
    assert not any(server.syncs_always for server in found)


async def test_a_client_with_another_ca_is_told_so(cluster: Cluster) -> None:
    Authority(cluster.directory / "other")
    context = tls.context(cluster.url, cluster.directory / "other" / "ca.pem")
    with pytest.raises(Unavailable, match="certificate that is not trusted here: name its CA by CLOCHE_CA"):
        await connect(cluster.url, "client", "", "client", tls=context, patience_s=READY_S)


async def test_a_client_without_a_ca_is_told_so(cluster: Cluster) -> None:
    url = addresses.url(cluster.where, tls=False)
    password = cluster.password("client")
    with pytest.raises(Unavailable, match="name its CA by CLOCHE_CA"):
        await connect(url, "client", password, "client", patience_s=READY_S)


async def test_a_wrong_password_is_told_so(cluster: Cluster) -> None:
    context = tls.context(cluster.url, cluster.ca)
    with pytest.raises(Unavailable, match="refuses user 'client'"):
        await connect(cluster.url, "client", "wrong", "client", tls=context, patience_s=READY_S)


async def test_words_that_are_not_tls_never_reach_the_server(cluster: Cluster) -> None:
    def ask() -> bytes:
        with socket.create_connection(("127.0.0.1", cluster.where[0].port)) as plain:
            plain.recv(65_536)
            plain.sendall(b'CONNECT {"user": "client", "pass": "x"}\r\nPING\r\n')
            return b"" if plain.recv(1) == b"" else b"answered"

    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.to_thread(ask) == b""


async def test_a_server_without_tls_is_not_told_the_password(cluster: Cluster) -> None:
    heard = bytearray()

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "max_payload": 1048576}\r\n')
        heard.extend(await reader.read(65_536))
        writer.close()

    async with await asyncio.start_server(pretend, "127.0.0.1", 0) as impostor:
        url = f"nats://127.0.0.1:{impostor.sockets[0].getsockname()[1]}"
        context = tls.context(url, cluster.ca)
        with pytest.raises(Unavailable, match="speaks no TLS"):
            await connect(url, "client", "the password", "client", tls=context, patience_s=READY_S)
    assert heard == b""


async def test_what_is_published_through_the_kill_of_a_leader_is_stored_once_and_in_order(cluster: Cluster) -> None:
    admin, bus = await cluster.connect("admin"), await cluster.connect("executor")
    before = await stored(admin)
    stream = OutStream(bus)
    acks = [await stream.send("cloche.log.sb2.command.output", b"x" * 1000, f"kill.{number}") for number in range(50)]
    leader = await cluster.leader(admin)
    cluster.servers[leader].kill()
    for number in range(50, 300):
        acks.append(await stream.send("cloche.log.sb2.command.output", b"x" * 1000, f"kill.{number}"))
    await stream.flush()
    await stream.aclose()
    sequences = [(await ack).seq for ack in acks]
    assert sequences == sorted(set(sequences))
    assert await cluster.leader(admin) != leader
    assert await stored(admin) == before + 300
    guarded = await append(bus, "cloche.log.sb2.command.output", b"", "kill.299", timeout_s=READY_S)
    assert guarded.duplicate
    cluster.servers[leader].start()
    await cluster.whole(admin)


async def test_provisioning_again_changes_nothing(cluster: Cluster) -> None:
    env = cluster.environment() | {"CLOCHE_REPLICAS": "3", "CLOCHE_DURABILITY": "process"}
    ran = await asyncio.to_thread(cloche, cluster.directory / "data", "provision", env=env)
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to change\n" in ran.err


async def test_provisioning_warns_where_servers_are_less_durable_than_asked(cluster: Cluster) -> None:
    env = cluster.environment() | {"CLOCHE_REPLICAS": "3"}
    ran = await asyncio.to_thread(cloche, cluster.directory / "data", "provision", "--json", env=env)
    assert ran.code == 0
    notes = [json.loads(line)["text"] for line in ran.out.splitlines()]
    assert any("warning: n1, n2, n3 acknowledge before the disk has it" in note for note in notes)


async def test_whoever_looks_at_the_servers_learns_what_they_lack(cluster: Cluster) -> None:
    """As the doctor does."""
    settings = cluster.settings()
    found = await look(settings)
    assert [server.name for server in found] == list(NAMES)
    assert "n1, n2, n3 acknowledge before the disk has it" in (less_durable(settings, found) or "")
    assert less_durable(replace(settings, durability=Durability.PROCESS), found) is None


async def test_fewer_replicas_have_to_be_allowed(cluster: Cluster) -> None:
    ran = await asyncio.to_thread(cloche, cluster.directory / "data", "provision", env=cluster.environment())
    assert ran.code == 2
    assert "CLOCHE_LOG has 3 replicas" in ran.err
    assert "--fewer-replicas" in ran.err


async def test_more_replicas_than_servers_are_refused_with_who_answers(cluster: Cluster) -> None:
    env = cluster.environment() | {"CLOCHE_REPLICAS": "5"}
    ran = await asyncio.to_thread(cloche, cluster.directory / "data", "provision", "--wait", "1", env=env)
    assert ran.code == 1
    assert "5 replicas need 5 servers: fewer are there; of all servers these answer: n1, n2, n3" in ran.err


async def test_a_node_is_added_while_everything_runs(cluster: Cluster) -> None:
    spawner = await cluster.connect("spawner")
    request = "CONSUMER.INFO.CLOCHE_COMMANDS.spawner-second"
    with pytest.raises((Denied, NobodyAnswers)):
        await spawner.api(request)
    cluster.nodes = ("local", "second")
    cluster.reload()
    await cluster.provision(Limits(replicas=3))

    async def may_take_orders() -> bool:
        try:
            return bool((await spawner.api(request))["name"])
        except (Denied, Unavailable):
            return False

    await until(may_take_orders)
    assert (await append(spawner, "cloche.log.sb3.sandbox.created", b"{}", "after", timeout_s=READY_S)).seq


async def test_a_password_is_changed_while_everything_runs(cluster: Cluster) -> None:
    async with open_as(cluster.settings(), "guardian") as guardian:
        (cluster.credentials / "guardian.json").unlink()
        epoch = guardian.epoch
        cluster.reload()
        await until(lambda: guardian.epoch > epoch)
        assert (await append(guardian, "cloche.log.sb4.guardian.observed", b"{}", "renewed", timeout_s=READY_S)).seq
