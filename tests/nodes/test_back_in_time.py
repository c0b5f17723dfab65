"""Orders that were given for a moment that is over: a node that was gone, and is back; a node that lives."""

import asyncio
from pathlib import Path

import pytest

from contracts.commands.node import LoseNode
from contracts.errors import Invalid
from contracts.nodes import Standing
from contracts.streams import COMMANDS_STREAM
from infra.client.nodes import NodeHealth, lose, nodes
from infra.client.sandbox import load_state
from infra.nodes import NodeLog
from tests.bus.servers import stored, until
from tests.nodes.pair import Pair, create_on, go_on, pair_in, stop

pytestmark = pytest.mark.timeout(240)


async def _is(pair: Pair, node: str, health: NodeHealth) -> bool:
    return {each.node: each.health for each in await nodes(pair.cloche.bus)}[node] is health


async def _is_idle(pair: Pair) -> bool:
    return await stored(pair.admin, COMMANDS_STREAM) == 0


async def test_a_node_that_is_back_before_anybody_had_room_keeps_what_runs_there(tmp_path: Path) -> None:
    async with pair_in(tmp_path, most=1, lost_after_s=3.0, wait_s=300.0, without=("egress",)) as pair:
        given: asyncio.Queue[str] = asyncio.Queue()
        await pair.admin.tap(
            "cloche.cmd.any.sb.sandbox.recover", lambda subject, _reply, _data, _raw: given.put_nowait(subject.decode())
        )
        await create_on(pair, pair.n1, "full")
        sandbox = await create_on(pair, pair.n2, "sb")
        running = await sandbox.start("echo begun; read line; echo heard $line", stdin=True)
        async for _ in running.output():
            break
        before = await load_state(pair.cloche.bus, "sb")

        await stop(pair.n2)
        await given.get()
        assert await _is(pair, "n2", NodeHealth.LOST)
        go_on(pair.n2)
        await until(lambda: _is(pair, "n2", NodeHealth.ALIVE), seconds=60)
        await until(lambda: _is_idle(pair), seconds=60)

        await running.write(b"you\n")
        assert (await running.wait()).stdout == b"begun\nheard you\n"
        after = await load_state(pair.cloche.bus, "sb")
        assert (after.node, after.instance, after.recovery) == ("n2", before.instance, None)
        assert [event async for event in sandbox.events(types=["dead_letter"])] == []


async def test_a_node_that_lives_is_not_taken_for_gone_by_force_either(tmp_path: Path) -> None:
    async with pair_in(tmp_path, without=("egress", "health_monitor", "file_watcher")) as pair:
        with pytest.raises(Invalid, match=r"node 'n2' shows signs of life: `cloche drain n2` moves what it has"):
            await lose(pair.cloche.bus, LoseNode(node="n2", force=True))
        assert (await NodeLog(pair.cloche.bus).read())["n2"].standing is Standing.JOINED
        await pair.n2.die()
        await lose(pair.cloche.bus, LoseNode(node="n2", force=True))
        assert (await NodeLog(pair.cloche.bus).read())["n2"].standing is Standing.LOST
