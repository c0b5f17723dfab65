"""The name of a node is one host's: another that comes with it does nothing but say so."""

import asyncio
import itertools
import re
import signal
from pathlib import Path

import pytest

from contracts import subjects
from contracts.commands.node import LoseNode
from contracts.errors import Invalid, Unavailable
from contracts.events.node import NodeJoined, VitalsNode
from contracts.nodes import NodeRecord, Standing
from infra.access import open_as
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.nodes import lose
from infra.embedded import secrets
from infra.embedded.server import EmbeddedServer
from infra.journal import Journal
from infra.node_identity import identity_file, make_identity, read_identity
from infra.nodes import NodeLog
from infra.provisioning import provision_realms
from infra.realms import parts
from tests.bus.servers import Server, nats_in, until
from tests.nodes.joined import JoinedNode, values_of
from tests.recovery.two_nodes import OneOfTwo
from tests.services.node import Service, settings_in

OF_A_NODE = ("spawner", "executor", "file_watcher", "health_monitor", "egress", "agent")
DIVIDED = "partitions = 2\n"
CONFIG = "[intervals]\nhealth_s = 0.3\n[node]\nvitals_s = 0.3\nlost_after_s = 0\n"


def _host(name: str, data: Path, server: Server, **values: str) -> JoinedNode:
    return JoinedNode(name, data, values_of(server) | values, CONFIG)


async def _refused(host: JoinedNode) -> str:
    with pytest.raises(Unavailable) as raised:
        await host.start()
    assert await host.end() == 1
    return raised.value.message


async def _record(bus: Bus, node: str) -> NodeRecord:
    return (await NodeLog(bus).read())[node]


async def _lives(bus: Bus, sandbox: str) -> list[str]:
    """What is said of its lifecycle."""
    entries = reader.read(bus, [subjects.lifecycle(sandbox)], follow=False)
    return [subjects.parse_event(entry.subject).kind async for entry in entries]


async def test_a_second_host_with_the_name_of_a_node_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    async with (
        nats_in(tmp_path / "hub", nodes=("n1",)) as server,
        _host("n1", tmp_path / "first", server) as first,
        Cloche.connect(first.settings) as cloche,
    ):
        sandbox = await cloche.create(id="box")
        before = await _lives(cloche.bus, "box")
        words = await _refused(second := _host("n1", tmp_path / "second", server))
        identity = read_identity(first.data)
        for advice in ("CLOCHE_NODE", "cloche nodes lost n1", f"CLOCHE_TAKE_OVER={identity}"):
            assert advice in words
        await second.aclose()
        assert (await sandbox.run(["true"])).exit_code == 0
        assert await _lives(cloche.bus, "box") == before


async def test_no_service_of_a_second_host_does_anything_where_each_is_a_process(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server:
        first = OneOfTwo("n1", tmp_path / "first", server, ("spawner", "executor"))
        second = OneOfTwo("n1", tmp_path / "second", server, OF_A_NODE)
        for host in (first, second):
            host.data.mkdir()
            (host.data / "cloche.toml").write_text(CONFIG)
        try:
            await first.start()
            await asyncio.gather(*(_says_whose(host) for host in second.services.values()))
        finally:
            await second.aclose()
            await first.aclose()


async def _says_whose(service: Service) -> None:
    starting = asyncio.ensure_future(service.start())
    await until(lambda: any("belongs to another host" in line for line in service.said))
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert not any(line.endswith(": ready") for line in service.said)


async def test_of_two_hosts_that_come_with_one_name_at_the_same_time_one_gets_it(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server:
        hosts = [_host("n1", tmp_path / name, server) for name in ("first", "second")]
        try:
            ends = await asyncio.gather(*(host.start() for host in hosts), return_exceptions=True)
            assert [type(end) for end in ends if end is not None] == [Unavailable]
            winner = hosts[ends.index(None)]
            record = await _record(await server.connect("client"), "n1")
            assert record.identity == read_identity(winner.data)
        finally:
            for host in hosts:
                await host.aclose()


async def test_a_host_with_an_empty_data_directory_gets_its_name_back_once_the_node_is_lost(tmp_path: Path) -> None:
    async with (
        nats_in(tmp_path / "hub", nodes=("n1", "n2")) as server,
        _host("n1", tmp_path / "n1", server) as first,
        Cloche.connect(first.settings) as cloche,
    ):
        await cloche.create(id="box")
        await first.die()
        async with _host("n2", tmp_path / "n2", server):
            again = _host("n1", tmp_path / "again", server)
            assert "nodes lost n1" in await _refused(again)
            await until(lambda: _is_lost(cloche.bus, "n1"))
            async with again:
                record = await _record(cloche.bus, "n1")
                assert (record.standing, record.identity) == (Standing.JOINED, read_identity(again.data))
                await until(lambda: _is_back(cloche), seconds=60)
                assert (await (await cloche.sandbox("box")).run(["true"])).exit_code == 0


async def _is_lost(bus: Bus, node: str) -> bool:
    """A person says so, until the others have heard nothing of it for long enough to believe it."""
    try:
        await lose(bus, LoseNode(node=node))
    except Invalid:
        return False
    return True


async def _is_back(cloche: Cloche) -> bool:
    return "recovered" in await _lives(cloche.bus, "box")


async def test_the_only_node_is_taken_over_by_a_word_and_the_host_that_had_the_name_ends(tmp_path: Path) -> None:
    async with (
        nats_in(tmp_path / "hub", nodes=("n1",)) as server,
        _host("n1", tmp_path / "first", server) as first,
    ):
        (identity,) = re.findall("CLOCHE_TAKE_OVER=([0-9a-f]+)", await _refused(_host("n1", tmp_path / "x", server)))
        async with _host("n1", tmp_path / "next", server, CLOCHE_TAKE_OVER=identity) as following:
            assert await first.ended() == 1
            assert "belongs to another host" in first.words()
            assert (await _record(await server.connect("client"), "n1")).identity == read_identity(following.data)
            # The word is about the one that is gone, and may stay where it was said.
            await following.end()
            await following.start()
            assert "belongs to another host" in await _refused(first)


async def test_a_name_from_before_hosts_had_identities_is_the_first_host_s_that_comes(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server:
        spawner = await server.connect("spawner")
        journal = Journal(spawner, service="spawner", node="n1")
        await NodeLog(spawner).tell(journal, "n1", NodeJoined(node="n1"))
        async with _host("n1", tmp_path / "first", server) as first:
            assert (await _record(spawner, "n1")).identity == read_identity(first.data)
            assert "belongs to another host" in await _refused(_host("n1", tmp_path / "second", server))


async def test_a_host_from_before_there_were_identities_has_its_name_while_it_shows_signs_of_life(
    tmp_path: Path,
) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server:
        spawner = await server.connect("spawner")
        journal = Journal(spawner, service="spawner", node="n1")
        await NodeLog(spawner).tell(journal, "n1", NodeJoined(node="n1"))
        await _show(spawner, journal, 0)
        showing = asyncio.create_task(_show_on(spawner, journal))
        host = _host("n1", tmp_path / "first", server)
        assert "another host shows signs of life" in await _refused(host)
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        async with host:
            assert (await _record(spawner, "n1")).identity == read_identity(host.data)


async def _show(bus: Bus, journal: Journal, number: int) -> None:
    vitals = VitalsNode(sandboxes=0, max_sandboxes=1, every_s=0.3)
    written = journal.write(subjects.NO_SANDBOX, vitals, id=f"old.{number}", scope="n1")
    await bus.tell(subjects.node_vitals("n1"), written.payload)


async def _show_on(bus: Bus, journal: Journal) -> None:
    for number in itertools.count(1):
        await _show(bus, journal, number)
        await asyncio.sleep(0.3)


async def test_a_host_keeps_its_name_through_restarts_and_says_so_once(tmp_path: Path) -> None:
    async with (
        nats_in(tmp_path / "hub", nodes=("n1",)) as server,
        _host("n1", tmp_path / "first", server) as first,
    ):
        client = await server.connect("client")
        before = await _record(client, "n1")
        await first.end()
        await first.start()
        assert await _record(client, "n1") == before
        assert before.identity == read_identity(first.data)


async def test_a_host_that_serves_several_partitions_is_succeeded_in_all_of_them_by_one_word(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "cloche.toml").write_text(DIVIDED)
    operator = settings_in(tmp_path / "servers", CLOCHE_NODE="n1")
    async with EmbeddedServer.of(operator) as server:
        await provision_realms(operator)
        values = {"CLOCHE_URL": server.url, "CLOCHE_CREDS": str(secrets.directory(operator.data))}
        first, following = [JoinedNode("n1", tmp_path / name, values, DIVIDED) for name in ("first", "next")]
        try:
            await first.start()
            await first.end(signal.SIGTERM)
            assert f"CLOCHE_TAKE_OVER={read_identity(first.data)}" in await _refused(following)
            following.environment["CLOCHE_TAKE_OVER"] = read_identity(first.data)
            await following.start()
            for part in parts(following.settings):
                async with open_as(part, "client") as bus:
                    assert (await _record(bus, "n1")).identity == read_identity(following.data)
        finally:
            for host in (first, following):
                await host.end(signal.SIGTERM)
                await host.aclose()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"5f0c"])
def test_a_damaged_identity_is_told_and_not_made_anew(tmp_path: Path, content: bytes) -> None:
    identity_file(tmp_path).parent.mkdir()
    identity_file(tmp_path).write_bytes(content)
    with pytest.raises(Invalid, match="is damaged, it has no identity in it"):
        make_identity(tmp_path)
    assert identity_file(tmp_path).read_bytes() == content


async def test_everybody_who_makes_the_identity_of_a_directory_makes_the_same(tmp_path: Path) -> None:
    made = await asyncio.gather(*(asyncio.to_thread(make_identity, tmp_path) for _ in range(16)))
    assert len(set(made)) == 1
    assert [each.name for each in (tmp_path / "identity").iterdir()] == ["node"]
