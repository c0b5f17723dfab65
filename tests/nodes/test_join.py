"""`cloche node`: a host that joins servers which are run elsewhere."""

import asyncio
import json
import signal
from functools import partial
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from infra.client import Cloche
from infra.client.nodes import NodeHealth, nodes
from tests.bus.servers import nats_in, until
from tests.cli.command_line import CommandLine
from tests.nodes.joined import JoinedNode, values_of


async def test_a_node_serves_sandboxes_and_its_end_leaves_their_commands_running(tmp_path: Path) -> None:
    async with (
        nats_in(tmp_path / "hub", nodes=("n1",)) as server,
        JoinedNode("n1", tmp_path / "n1", values_of(server)) as node,
        Cloche.connect(node.settings) as cloche,
    ):
        assert node.words().startswith("node n1: joining nats://")
        sandbox = await cloche.create(id="box")
        listed = json.loads(await asyncio.to_thread(node.cloche, "nodes", "--json"))
        assert (listed["node"], listed["health"]) == ("n1", "alive")
        _, row = (await asyncio.to_thread(node.cloche, "nodes")).splitlines()
        assert row.split()[:2] == ["n1", "alive"]
        assert row.split()[-1] == listed["vitals"]["version"]
        running = await sandbox.start(["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo on"])
        assert await node.end(signal.SIGTERM) == 0
        await node.start()
        assert (await sandbox.run(["touch", "go"])).exit_code == 0
        assert (await running.wait()).exit_code == 0


async def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",), provisioned=False) as server:
        for name, changed, word in (
            ("n1", {}, "run `cloche provision` with CLOCHE_NODE=n1"),
            ("other", {}, "name it in `nodes`"),
            ("n1", {"CLOCHE_URL": ""}, "set CLOCHE_URL"),
            ("n1", {"CLOCHE_CREDS": ""}, "set CLOCHE_CREDS"),
        ):
            node = JoinedNode(name, tmp_path / "n1", values_of(server) | changed)
            with pytest.raises(Unavailable) as raised:
                await node.start()
            assert word in raised.value.message
            assert await node.end() == 1


async def test_whoever_asks_something_of_a_node_that_is_silent_is_told_so_and_it_obeys_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with (
        nats_in(tmp_path / "hub", nodes=("n1",)) as server,
        JoinedNode("n1", tmp_path / "n1", values_of(server), "[node]\nvitals_s = 0.3\n") as node,
        Cloche.connect(node.settings) as cloche,
    ):
        await node.end(signal.SIGTERM)
        await until(partial(_is_silent, cloche))
        assert " silent for " in (await asyncio.to_thread(node.cloche, "nodes")).splitlines()[1]
        with (
            CommandLine(["nodes", "lost", "n1"], node.environment) as losing,
            CommandLine(["drain", "n1", "--wait"], node.environment) as draining,
        ):
            for line, words in ((losing, b"no node shows signs of life: the order waits"), (draining, b"n1 is silent")):
                assert line.stderr is not None
                assert words in await asyncio.to_thread(line.stderr.readline)
            await node.start()
            assert b"n1 is drained" in (await asyncio.to_thread(draining.communicate))[1]
            assert b"node 'n1' shows signs of life" in (await asyncio.to_thread(losing.communicate))[1]
            assert (draining.returncode, losing.returncode) == (0, 2)


async def _is_silent(cloche: Cloche) -> bool:
    return [each.health for each in await nodes(cloche.bus)] == [NodeHealth.SILENT]
