"""A node that hangs: for a moment, or so long that it is taken for gone; and what it may still say when it is back."""

import asyncio
from pathlib import Path

import pytest

from contracts.commands.node import LoseNode
from contracts.errors import Invalid
from contracts.state import Status
from infra.client import Cloche, Execution, Sandbox
from infra.client.nodes import NodeHealth, lose, nodes
from infra.client.sandbox import load_state
from tests.bus.servers import until
from tests.nodes.pair import create_on, go_on, pair_in, stop
from tests.recovery.work import facts, faults, has_no_records, whereabouts

pytestmark = pytest.mark.timeout(300)

CHATTY = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.002; done"]


async def _chatting(sandbox: Sandbox) -> Execution:
    running = await sandbox.start(CHATTY)
    await _says_more(running)
    return running


async def _says_more(running: Execution) -> None:
    async for _ in running.output():
        return


async def _is(cloche: Cloche, node: str, health: NodeHealth) -> None:
    async def seen() -> bool:
        return {each.node: each.health for each in await nodes(cloche.bus)}[node] is health

    await until(seen, seconds=90)


async def _told(sandbox: Sandbox) -> int:
    return sum([1 async for _ in facts(sandbox, "command.output")])


async def test_a_node_that_hangs_goes_on_and_one_taken_for_gone_finds_its_sandboxes_elsewhere(tmp_path: Path) -> None:
    async with pair_in(tmp_path, lost_after_s=12.0, without=("egress",)) as pair:
        cloche = pair.cloche
        sandbox = await create_on(pair, pair.n2, "sb")
        never = await create_on(pair, pair.n2, "never", {"restart": {"policy": "never"}})
        running, other = await _chatting(sandbox), await _chatting(never)
        await sandbox.run("echo kept > file")
        await sandbox.flush()
        with pytest.raises(Invalid, match="shows signs of life"):
            await lose(cloche.bus, LoseNode(node="n2"))

        await stop(pair.n2)
        await _is(cloche, "n2", NodeHealth.SILENT)
        before = await _told(sandbox)
        go_on(pair.n2)
        await _is(cloche, "n2", NodeHealth.ALIVE)
        await until(lambda: _more(sandbox, before))

        await stop(pair.n2)
        await _is(cloche, "n2", NodeHealth.LOST)
        assert [(await each.wait()).outcome for each in (running, other)] == ["lost", "lost"]
        await until(lambda: _runs_again(cloche, sandbox), seconds=60)
        assert (sandbox.state.node, sandbox.state.status) == ("n1", Status.RUNNING)
        assert (await sandbox.run("cat file")).stdout == b"kept\n"
        failed = await load_state(cloche.bus, "never")
        assert (failed.node, failed.status, failed.error and failed.error.details["cause"]) == (
            "n1",
            Status.FAILED,
            "node_lost",
        )
        go_on(pair.n2)
        await _is(cloche, "n2", NodeHealth.ALIVE)
        await until(lambda: _is_clean(pair.n2.data), seconds=60)
        assert [await faults(cloche, each) for each in (sandbox, never)] == [(), ()]
        again = await cloche.create({"node_labels": {"name": "n2"}}, id="again")
        assert (await again.run("echo well")).stdout == b"well\n"


async def _runs_again(cloche: Cloche, sandbox: Sandbox) -> bool:
    sandbox.state = await load_state(cloche.bus, sandbox.id)
    return sandbox.state.status is Status.RUNNING


async def _more(sandbox: Sandbox, before: int) -> bool:
    return await _told(sandbox) > before


async def _is_clean(data: Path) -> bool:
    here = await whereabouts(data)
    await asyncio.sleep(0)
    return not here and await has_no_records(data)
