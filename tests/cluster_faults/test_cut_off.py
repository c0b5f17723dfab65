"""A node whose network is cut for so long that it is taken for gone, while it works on; and its return."""

from functools import partial
from pathlib import Path

import pytest

from contracts import subjects
from contracts.state import Status
from contracts.verifying import Trust
from infra.bus import reader
from infra.client import Cloche, Sandbox
from infra.client.nodes import NodeHealth, nodes
from infra.client.sandbox import load_state
from infra.log.live import LiveView
from infra.verify.log import verify_log
from tests.bus.servers import until
from tests.cluster_faults.lab import lab_in
from tests.cluster_faults.nodes import NAMES, nodes_in
from tests.faults.stories import Story, stories
from tests.recovery.work import faults, host_workspace, whereabouts

pytestmark = pytest.mark.timeout(600)

PATIENCE_S = 120.0
SETTINGS = "vitals_s = 0.5\nlost_after_s = 10.0"
CHATS = "while :; do echo $((i += 1)); sleep 0.05; done"
ENDS_MEANWHILE = "while [ ! -e end ]; do sleep 0.05; done; echo told by nobody; touch ended; exit 3"
NEVER = {"restart": {"policy": "never"}}


async def test_a_node_that_is_cut_off_for_long_ends_nothing_twice_and_removes_what_others_have(tmp_path: Path) -> None:
    async with (
        lab_in(tmp_path / "nats", nodes=NAMES) as lab,
        nodes_in(tmp_path, lab, SETTINGS) as found,
        Cloche.connect(found["n1"].settings) as cloche,
    ):
        moved = await cloche.create(id="moved")
        cut = found[moved.state.node]
        stays = await cloche.create({"node_labels": {"host": cut.name}} | NEVER, id="stays")
        running = [await each.start(CHATS, id=f"{each.id}-chats") for each in (moved, stays)]
        running.append(await moved.start(ENDS_MEANWHILE, id="moved-ends"))
        for each in running[:2]:
            await anext(aiter(each.output()))
        await moved.run("echo kept > file")
        await moved.flush()

        lab.network.cut(cut.name)
        # What runs there goes on, and may end, and nobody is told.
        inside = await host_workspace(cut.data, moved)
        (inside / "end").touch()
        await until((inside / "ended").exists, seconds=PATIENCE_S)
        await until(partial(_is, cloche, cut.name, NodeHealth.LOST), seconds=PATIENCE_S)
        assert [(await each.wait()).outcome for each in running] == ["lost"] * 3
        await until(partial(_runs, cloche, moved), seconds=PATIENCE_S)
        assert moved.state.node != cut.name
        assert (await moved.run("cat file")).stdout == b"kept\n"
        failed = await load_state(cloche.bus, stays.id)
        assert (failed.status, failed.error and failed.error.details["cause"]) == (Status.FAILED, "node_lost")

        lab.network.heal(cut.name)
        await until(partial(_is, cloche, cut.name, NodeHealth.ALIVE), seconds=PATIENCE_S)
        await until(partial(_is_clean, cut.data), seconds=PATIENCE_S)
        await until(cut.holds_nothing, seconds=PATIENCE_S)
        again = await cloche.create({"node_labels": {"host": cut.name}}, id="again")
        assert (await again.run("echo well")).stdout == b"well\n"
        assert await _told_of(cloche, cut.name) == ["joined", "lost", "returned"]
        assert [await faults(cloche, each) for each in (moved, stays)] == [(), ()]
        told = {**await stories(cloche, moved.id), **await stories(cloche, stays.id)}
        assert [_end(told[each.id]) for each in running] == [(1, ["lost"], "node_lost", None)] * 3
        verdict = await verify_log(LiveView(cloche.bus), Trust((), None, ()), lambda *_: None)
        assert (verdict.findings, verdict.open) == ((), ())


async def _is(cloche: Cloche, node: str, health: NodeHealth) -> bool:
    return {each.node: each.health for each in await nodes(cloche.bus)}[node] is health


async def _runs(cloche: Cloche, sandbox: Sandbox) -> bool:
    sandbox.state = await load_state(cloche.bus, sandbox.id)
    return sandbox.state.status is Status.RUNNING


async def _is_clean(data: Path) -> bool:
    return not await whereabouts(data)


async def _told_of(cloche: Cloche, node: str) -> list[str]:
    entries = reader.read(cloche.bus, [subjects.node_events(node)], 1, follow=False)
    return [subjects.parse_event(entry.subject).kind async for entry in entries]


def _end(story: Story) -> tuple[int, list[str], str, int | None]:
    return story.starts, story.ends, story.cause, story.code
