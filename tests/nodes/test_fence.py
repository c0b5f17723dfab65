"""What a node sent before it was cut off, and the server gets after another node has its sandbox."""

from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.commands.node import LoseNode
from contracts.proof import TERMINAL
from contracts.state import Status
from infra.bus import reader
from infra.client import Execution, Sandbox
from infra.client.nodes import lose
from infra.client.sandbox import load_state
from tests.bus.servers import until
from tests.nodes.held import HoldingProxy
from tests.nodes.pair import create_on, pair_in
from tests.recovery.work import faults, host_workspace
from tests.services.node import Service

pytestmark = pytest.mark.timeout(300)

WAITS = "echo early; while [ ! -e go ]; do sleep 0.02; done; echo late; exit 3"
LATE = ("output", "completed")
REFUSED = b'"description":"wrong last sequence'
JUDGED = b'"stream":"CLOCHE_LOG"'


async def _is_early(running: Execution) -> None:
    async for chunk in running.output():
        assert chunk.data == b"early\n"
        return


async def _told(sandbox: Sandbox, running: Execution) -> list[str]:
    filters = [subjects.told_of(sandbox.id, running.id)]
    entries = reader.read(sandbox._bus, filters, 1, follow=False)
    return [codec.decode_head(entry.data).type.removeprefix("command.") async for entry in entries]


async def test_what_a_lost_node_had_sent_is_refused_once_another_has_its_sandbox(tmp_path: Path) -> None:
    async with pair_in(tmp_path, without=("egress", "health_monitor")) as pair:
        host, port = pair.n2.server.url.removeprefix("nats://").split(":")
        async with HoldingProxy(host, int(port)).open() as proxy:
            await pair.n2.services["executor"].kill()
            values = {**pair.n2.values, "CLOCHE_URL": f"nats://127.0.0.1:{proxy.port}"}
            pair.n2.services["executor"] = Service("executor", pair.n2.data, values)
            await pair.n2.services["executor"].start()
            sandbox = await create_on(pair, pair.n2, "sb")
            running = await sandbox.start(WAITS)
            await _is_early(running)

            proxy.hold()
            (await host_workspace(pair.n2.data, sandbox) / "go").touch()
            await until(lambda: all(f"command.{kind}.{running.id}".encode() in proxy.held for kind in LATE))
            assert b"late" in proxy.held
            await pair.n2.die()
            await lose(pair.cloche.bus, LoseNode(node="n2", force=True))
            assert (await running.wait()).outcome == "lost"
            await until(lambda: _is_on(sandbox, "n1"), seconds=60)

            before = await _told(sandbox, running)
            proxy.release()
            await until(lambda: proxy.answered.count(JUDGED) >= len(LATE))
            assert await _told(sandbox, running) == before
            assert proxy.answered.count(REFUSED) == proxy.answered.count(JUDGED)
            assert [kind for kind in before if kind in TERMINAL] == ["lost"]
            assert await faults(pair.cloche, sandbox) == ()


async def _is_on(sandbox: Sandbox, node: str) -> bool:
    sandbox.state = await load_state(sandbox._bus, sandbox.id)
    return (sandbox.state.node, sandbox.state.status) == (node, Status.RUNNING)
