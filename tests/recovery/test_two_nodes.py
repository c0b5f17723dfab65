"""A sandbox has one owner: another node may take it over, and then the first gives way."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from contracts.commands.sandbox import RecoverSandbox
from contracts.events.command import CommandLost
from contracts.state import Status
from infra.client import Execution, Sandbox
from infra.client.orders import publish
from infra.client.sandbox import load_state
from tests.bus.servers import until
from tests.recovery.two_nodes import create_on, two_nodes
from tests.recovery.work import facts, faults, has_no_records, kinds, on_disk, whereabouts, work

pytestmark = [pytest.mark.timeout(180)]


async def test_the_sandbox_of_a_lost_node_lives_on_elsewhere_and_the_node_cleans_up_when_it_returns(
    tmp_path: Path,
) -> None:
    async with two_nodes(tmp_path) as pair:
        first, second, cloche, _ = pair
        sandbox = await create_on(pair, first, "sb")
        await work(sandbox)
        running = await chatting(sandbox)
        await sandbox.flush()
        before = await on_disk(first.data, sandbox)
        await first.die()
        done = await sandbox.recover(node="n2")
        assert (done.node, sandbox.state.node, sandbox.state.former_nodes) == ("n2", "n2", ("n1",))
        assert done.sequence is not None
        assert await on_disk(second.data, sandbox) == before
        assert (await sandbox.run("cat src/main.py; echo more > more")).stdout == b"print(1)\n"
        # Nobody knows whether the node will ever return.
        assert (await running.wait()).outcome == "lost"
        assert [(fact.cause, "n1" in fact.detail) async for fact in losses(sandbox)] == [("node_lost", True)]
        # It was not there when it was taken over, and has its own copy still, which even runs.
        assert await whereabouts(first.data) == ["local:sb"]
        await first.start()
        await until(partial(_is_empty, first.data), seconds=60)
        await until(partial(has_no_records, first.data), seconds=60)
        assert await faults(pair.cloche, sandbox) == ()
        assert (await sandbox.run("cat more")).stdout == b"more\n"
        tree = (await sandbox.history.tree((await sandbox.flush()).sequence)).tree
        assert tree == await on_disk(second.data, sandbox)
        assert (await load_state(cloche.bus, "sb")).status == Status.RUNNING


async def _is_empty(data: Path) -> bool:
    return await whereabouts(data) == []


async def chatting(sandbox: Sandbox) -> Execution:
    """A command that writes on and on, and whose output has begun to arrive."""
    running = await sandbox.start("while :; do echo more; sleep 0.02; done")
    async for _ in running.output():
        break
    return running


async def losses(sandbox: Sandbox) -> AsyncIterator[CommandLost]:
    async for fact in facts(sandbox, "command.lost"):
        assert isinstance(fact, CommandLost)
        yield fact


async def test_a_living_node_gives_way_at_once_and_may_have_its_sandbox_back(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as pair:
        first, second, _, _ = pair
        sandbox = await create_on(pair, first, "sb")
        await work(sandbox)
        before, running = await on_disk(first.data, sandbox), await chatting(sandbox)
        await sandbox.recover(node="n2")
        assert (await running.wait()).outcome == "lost"
        await until(partial(_is_empty, first.data), seconds=60)
        await until(partial(has_no_records, first.data), seconds=60)
        assert await on_disk(second.data, sandbox) == before
        await sandbox.recover(node="n1")
        await until(partial(_is_empty, second.data), seconds=60)
        assert await on_disk(first.data, sandbox) == before
        assert (await sandbox.run("cat src/main.py")).stdout == b"print(1)\n"
        assert await faults(pair.cloche, sandbox) == ()


async def test_two_nodes_that_are_asked_at_once_recover_one_death_once(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as pair:
        sandbox = await create_on(pair, pair.first, "sb")
        await work(sandbox)
        await sandbox.flush()
        tree = await on_disk(pair.first.data, sandbox)
        for death in range(1, 4):
            state = await load_state(pair.cloche.bus, "sb")
            again = RecoverSandbox(reason="it died", instance=state.instance)
            asked = [("n1", "one"), ("n2", "two"), ("n1", "three"), ("n2", "four")]
            await asyncio.gather(
                *(publish(pair.cloche.bus, node, "sb", again, id=f"{name}-{death}") for node, name in asked)
            )
            await pair.orders_are_done()
            assert (await kinds(sandbox))[3:] == ["recovering", "recovered"] * death
            assert not [fact async for fact in facts(sandbox, "dead_letter")]
            owner, other = pair.by_owner((await load_state(pair.cloche.bus, "sb")).node)
            assert await on_disk(owner.data, sandbox) == tree
            await until(partial(_is_empty, other.data), seconds=60)
