"""A node that is drained stays so; and what was frozen for a drain does not stay frozen."""

from pathlib import Path

import pytest

from contracts.commands.node import DrainNode
from contracts.commands.sandbox import CreateSandbox
from contracts.errors import ClocheError
from contracts.nodes import Standing
from contracts.state import Status
from infra.client.nodes import drain
from infra.client.orders import publish
from infra.client.sandbox import brought_up, load_state
from infra.sandbox.providers import load_provider
from tests.bus.servers import until
from tests.nodes.pair import Pair, Stoppable, create_on, pair_in

pytestmark = pytest.mark.timeout(240)


async def test_nothing_begins_on_a_drained_node_and_whoever_asks_is_told_what_to_do(tmp_path: Path) -> None:
    async with pair_in(tmp_path, without=("egress", "health_monitor")) as pair:
        stopped, other = await create_on(pair, pair.n2, "stopped"), await create_on(pair, pair.n1, "other")
        await stopped.run("echo kept > file")
        await stopped.flush()
        await stopped.stop(grace_ms=0)
        async for news in drain(pair.cloche.bus, "n2", DrainNode()):
            if news.record.standing is Standing.DRAINED:
                break
        with pytest.raises(ClocheError, match=r"drained: `cloche recover stopped --node NODE` brings") as start:
            await stopped.boot()
        with pytest.raises(ClocheError, match=r"drained: `cloche recover other --node NODE` brings") as recover:
            await other.recover(node="n2")
        created = await publish(pair.cloche.bus, "n2", "new", CreateSandbox())
        with pytest.raises(ClocheError, match=r"name another node, or none; `cloche drain n2 --cancel`") as create:
            await brought_up(pair.cloche.bus, "new", created)
        assert {each.value.code for each in (start, recover, create)} == {"NODE_DRAINED"}
        assert (await load_state(pair.cloche.bus, "other")).status is Status.RUNNING
        assert (await stopped.recover(node="n1")).node == "n1"
        assert (await stopped.run("cat file")).stdout == b"kept\n"


async def _freeze(node: Stoppable, sandbox: str) -> None:
    async with load_provider("local", node.data) as provider:
        await provider.pause(sandbox)


async def _runs(node: Stoppable, sandbox: str) -> bool:
    async with load_provider("local", node.data) as provider:
        seen = await provider.inspect(sandbox)
    return seen is not None and seen.state == "running"


async def test_what_was_frozen_by_one_that_died_before_it_could_say_so_is_thawed(tmp_path: Path) -> None:
    async with pair_in(tmp_path, without=("egress", "health_monitor")) as pair:
        sandbox = await create_on(pair, pair.n2, "sb")
        await pair.n2.services["spawner"].kill()
        await _freeze(pair.n2, "sb")
        await pair.n2.services["spawner"].start()
        await until(lambda: _runs(pair.n2, "sb"))
        await _freeze(pair.n2, "sb")
        await sandbox.resume()
        await until(lambda: _runs(pair.n2, "sb"))
        assert await _kinds(pair) == ["creating", "created", "started"]


async def _kinds(pair: Pair) -> list[str]:
    sandbox = await pair.cloche.sandbox("sb")
    return [event.head.type.removeprefix("sandbox.") async for event in sandbox.events(types=["sandbox"])]
