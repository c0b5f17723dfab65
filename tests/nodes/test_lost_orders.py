"""Orders that lie in the queue of a node that is gone, or are sent there by whoever does not know it yet."""

from pathlib import Path

import pytest

from contracts.commands.agent import StartAgent
from contracts.commands.node import LoseNode
from contracts.commands.sandbox import StopSandbox
from contracts.errors import NodeIsLost
from contracts.state import Status
from infra.client import Sandbox
from infra.client.nodes import NodeHealth, lose, nodes
from infra.client.orders import publish, raise_if_given_up
from infra.client.sandbox import load_state
from tests.bus.servers import until
from tests.nodes.pair import Pair, create_on, pair_in
from tests.recovery.work import faults
from tests.services.node import Service

pytestmark = pytest.mark.timeout(300)


async def _refused(sandbox: Sandbox, command: str) -> NodeIsLost:
    async for event in sandbox.events(types=["dead_letter"], follow=True):
        try:
            raise_if_given_up(event.head, command)
        except NodeIsLost as error:
            return error
    raise AssertionError


async def _letters(sandbox: Sandbox, command: str) -> int:
    return sum([event.head.correlationid == command async for event in sandbox.events(types=["dead_letter"])])


async def _runs_on(pair: Pair, sandbox: Sandbox, node: str) -> bool:
    sandbox.state = await load_state(pair.cloche.bus, sandbox.id)
    return (sandbox.state.node, sandbox.state.status) == (node, Status.RUNNING)


async def _health(pair: Pair, node: str) -> NodeHealth:
    return {each.node: each.health for each in await nodes(pair.cloche.bus)}[node]


async def test_every_order_for_a_lost_node_is_answered_and_none_once_it_is_back(tmp_path: Path) -> None:
    async with pair_in(tmp_path, without=("egress", "health_monitor")) as pair:
        bus = pair.cloche.bus
        agent = Service("agent", pair.n1.data, pair.n1.values)
        await agent.start()
        sandbox = await create_on(pair, pair.n2, "sb")
        stale = await pair.cloche.sandbox("sb")
        begun = await sandbox.start("echo begun; sleep 600")
        async for _ in begun.output():
            break

        await pair.n2.die()
        early = await stale.start("echo early")
        await lose(bus, LoseNode(node="n2", force=True))
        with pytest.raises(NodeIsLost, match=r"node 'n2' is lost; sandbox 'sb' .* send it again"):
            await early.wait()
        assert (await begun.wait()).outcome == "lost"
        await until(lambda: _runs_on(pair, sandbox, "n1"), seconds=60)

        with pytest.raises(NodeIsLost, match="sandbox 'sb' is running on node 'n1': send it again"):
            await stale.run("echo late")
        for order in (StopSandbox(), StartAgent(runtime="scripted", prompt="hello")):
            command = await publish(bus, "n2", "sb", order)
            assert (await _refused(sandbox, command)).details == {"node": "n2", "owner": "n1", "status": "running"}
            assert await _letters(sandbox, command) == 1
        assert (await sandbox.run("echo again")).stdout == b"again\n"

        await pair.n2.start()
        await until(lambda: _is(pair, "n2", NodeHealth.ALIVE), seconds=60)
        back = await pair.cloche.create({"node_labels": {"name": "n2"}}, id="back")
        for number in range(30):
            assert (await back.run(f"echo {number}")).stdout == b"%d\n" % number
        assert [await faults(pair.cloche, each) for each in (sandbox, back)] == [(), ()]
        await agent.kill()


async def _is(pair: Pair, node: str, health: NodeHealth) -> bool:
    return await _health(pair, node) is health
