"""`cloche node`: a host that joins servers which are run elsewhere."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from infra.client import Cloche
from tests.bus.servers import nats_in
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
