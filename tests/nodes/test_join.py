"""`cloche node`: a host that joins servers which are run elsewhere."""

import asyncio
import signal
from pathlib import Path

from infra.client import Cloche
from tests.bus.servers import nats_in
from tests.nodes.processes import PATIENCE_S, cleaned, node_of, said_by, until_up, values_of
from tests.services.node import settings_in


async def test_a_node_serves_sandboxes_and_its_end_leaves_their_commands_running(tmp_path: Path) -> None:
    data = tmp_path / "n1"
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server, cleaned(data):
        values = values_of(server, data, "n1")
        async with Cloche.connect(
            settings_in(data, **{name: value for name, value in values.items() if name != "CLOCHE_DATA"})
        ) as cloche:
            with node_of(values) as line:
                said = await asyncio.to_thread(until_up, line)
                assert said[0].startswith("node n1: joining nats://")
                sandbox = await cloche.create(id="box")
                listed = await asyncio.to_thread(said_by, values, "nodes", "--json")
                assert [(each["node"], each["health"]) for each in listed] == [("n1", "alive")]
                running = await sandbox.start(["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo on"])
                line.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(line.wait, PATIENCE_S) == 0
            with node_of(values) as line:
                await asyncio.to_thread(until_up, line)
                assert (await sandbox.run(["touch", "go"])).exit_code == 0
                assert (await running.wait()).exit_code == 0


async def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",), provisioned=False) as server:
        values = values_of(server, tmp_path / "n1", "n1")
        for changed, word in (
            ({}, "run `cloche provision` with CLOCHE_NODE=n1"),
            ({"CLOCHE_NODE": "other"}, "name it in `nodes`"),
            ({"CLOCHE_URL": ""}, "set CLOCHE_URL"),
            ({"CLOCHE_CREDS": ""}, "set CLOCHE_CREDS"),
        ):
            with node_of(values | changed) as line:
                _, err = await asyncio.to_thread(line.communicate, b"", PATIENCE_S)
                assert line.returncode == 1, err
                assert word in err.decode()
