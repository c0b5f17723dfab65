"""`cloche node`: a host that joins servers which are run elsewhere."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from infra.client import Cloche
from infra.embedded import secrets
from infra.keeper.launcher import end_keeper
from tests.bus.servers import Server, nats_in
from tests.cli.command_line import CommandLine
from tests.services.node import DEFAULTS, end_sandboxes, settings_in

PATIENCE_S = 120.0


def _values(server: Server, data: Path, node: str) -> dict[str, str]:
    return {
        "CLOCHE_DATA": str(data),
        "CLOCHE_NODE": node,
        "CLOCHE_URL": server.url,
        "CLOCHE_CREDS": str(secrets.directory(server.data)),
    }


@contextmanager
def _node(values: dict[str, str]) -> Iterator[CommandLine]:
    with CommandLine(["node"], {**os.environ, **DEFAULTS, **values}) as line:
        try:
            yield line
        finally:
            line.send_signal(signal.SIGKILL)


def _until_up(line: CommandLine) -> list[str]:
    said: list[str] = []
    assert line.stderr is not None
    killer = threading.Timer(PATIENCE_S, line.kill)
    killer.start()
    for raw in line.stderr:
        said.append(raw.decode())
        if "Ctrl-C" in said[-1]:
            killer.cancel()
            return said
    raise AssertionError(said)


def _said(values: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    with CommandLine(arguments, {**os.environ, **DEFAULTS, **values}) as line:
        out, err = line.communicate(b"", PATIENCE_S)
        assert line.returncode == 0, err
        return [json.loads(each) for each in out.splitlines()]


@asynccontextmanager
async def _cleaned(data: Path) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await end_sandboxes(data)
        await end_keeper(data, force=True)


async def test_a_node_serves_sandboxes_and_its_end_leaves_their_commands_running(tmp_path: Path) -> None:
    data = tmp_path / "n1"
    async with nats_in(tmp_path / "hub", nodes=("n1",)) as server, _cleaned(data):
        values = _values(server, data, "n1")
        async with Cloche.connect(
            settings_in(data, **{name: value for name, value in values.items() if name != "CLOCHE_DATA"})
        ) as cloche:
            with _node(values) as line:
                said = await asyncio.to_thread(_until_up, line)
                assert said[0].startswith("node n1: joining nats://")
                sandbox = await cloche.create(id="box")
                listed = await asyncio.to_thread(_said, values, "nodes", "--json")
                assert [(each["node"], each["health"]) for each in listed] == [("n1", "alive")]
                running = await sandbox.start(["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo on"])
                line.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(line.wait, PATIENCE_S) == 0
            with _node(values) as line:
                await asyncio.to_thread(_until_up, line)
                assert (await sandbox.run(["touch", "go"])).exit_code == 0
                assert (await running.wait()).exit_code == 0


async def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    async with nats_in(tmp_path / "hub", nodes=("n1",), provisioned=False) as server:
        values = _values(server, tmp_path / "n1", "n1")
        for changed, word in (
            ({}, "run `cloche provision` with CLOCHE_NODE=n1"),
            ({"CLOCHE_NODE": "other"}, "name it in `nodes`"),
            ({"CLOCHE_URL": ""}, "set CLOCHE_URL"),
            ({"CLOCHE_CREDS": ""}, "set CLOCHE_CREDS"),
        ):
            with _node(values | changed) as line:
                _, err = await asyncio.to_thread(line.communicate, b"", PATIENCE_S)
                assert line.returncode == 1, err
                assert word in err.decode()
