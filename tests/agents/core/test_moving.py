"""A run goes where its sandbox goes."""

from pathlib import Path

import pytest

from contracts.events import agent as facts
from tests.agents.conformance.scenes import begin, has_file, story, told
from tests.agents.rig import Call, Say
from tests.agents.scripted.rig import make_rig
from tests.recovery.two_nodes import create_on, two_nodes
from tests.services.node import Service


@pytest.mark.timeout(180)
async def test_a_run_of_a_lost_node_goes_on_where_its_sandbox_is_recovered(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as pair:
        for node in (pair.first, pair.second):
            node.services["agent"] = Service("agent", node.data, node.services["spawner"]._values)
            await node.services["agent"].start()
        sandbox = await create_on(pair, pair.first, "sb")
        steps = (Call("echo one >> steps"), Call("touch begun; sleep 600"), Call("echo two >> steps"), Say("arrived"))
        run = await begin(make_rig(), sandbox, steps)
        await has_file(sandbox, "begun")
        await sandbox.flush()
        await pair.first.die()
        await sandbox.recover(node="n2")
        result = await run.wait()
        assert (result.outcome, result.result) == ("completed", "arrived"), await story(run)
        assert (await sandbox.run("cat steps")).stdout == b"one\ntwo\n"
        assert [each.ok for each in await told(run, facts.AgentToolResult)] == [True, False, True]
        # The first comes back, and has nothing to say about a run that is over.
        await pair.first.start()
        again = await begin(make_rig(), sandbox, (Call("true"), Say("once")))
        assert (await again.wait()).outcome == "completed"
        assert len(await told(again, facts.AgentMessage)) == 1
