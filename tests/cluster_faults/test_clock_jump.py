"""A clock that jumps by an hour, forth and back, on the services' side: nothing is stored twice, nothing ends for it.

The server's own clock cannot be set apart: it reads the machine's, and no library can be put in between.
"""

import asyncio
import datetime
import time
from functools import partial
from pathlib import Path

import pytest

from contracts.agents import TypedRule, Verdict
from contracts.events import agent as facts
from contracts.verifying import Trust
from infra import clock
from infra.client import Cloche, Sandbox
from infra.client.agent_run import AgentRun
from infra.log.live import LiveView
from infra.verify.log import verify_log
from tests.agents.conformance.scenes import begin, story, told, until
from tests.agents.rig import Call, Say
from tests.agents.scripted.rig import make_rig
from tests.bus.servers import nats_in
from tests.cluster_faults.ack_proxy import Mode
from tests.cluster_faults.test_ack_lost import SUBJECT, forgets_at_once, impatient, publishing, stored
from tests.cluster_faults.work import Work
from tests.nodes.joined import JoinedNode, values_of

__all__ = ["impatient"]

from infra.bus.publisher import Ack, append

HOUR_S = 3600.0
JUMPS = [HOUR_S, -HOUR_S]
CONFIG = "[intervals]\nhealth_s = 0.5\n"
LESS_MS = 600_000
"""A limit of time that is less than the jump."""
SHORT_MS = 4000
"""One that is over soon, and not before the clock is set."""
RIG = make_rig()
WAITS = Call("until [ -e go ]; do sleep 0.02; done")
ASKS = [TypedRule(verdict=Verdict.ASK)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("jump_s", JUMPS)
async def test_an_acknowledgement_lost_while_the_clock_jumps_stores_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    async with nats_in(tmp_path) as server, publishing(server) as (bus, proxy):
        await forgets_at_once(server, monkeypatch)
        proxy.mode = Mode.SWALLOW
        real = clock.now

        def jumped() -> datetime.datetime:
            return real() + datetime.timedelta(seconds=jump_s if proxy.struck else 0)

        monkeypatch.setattr(clock, "now", jumped)
        assert await append(bus, SUBJECT, b"{}", "once") == Ack(1, True)
        assert await stored(bus) == ["once"]


def skew(file: Path) -> None:
    """Every wall clock of this process is as wrong as the file says, from one moment to the next."""
    wall, seconds, nanoseconds = clock.now, time.time, time.time_ns

    def wrong_s() -> float:
        return float(file.read_text())

    clock.now = lambda: wall() + datetime.timedelta(seconds=wrong_s())
    time.time = lambda: seconds() + wrong_s()
    time.time_ns = lambda: nanoseconds() + int(wrong_s() * 1e9)


def set_clocks(file: Path, seconds: float) -> None:
    """At once: nobody reads half of it."""
    written = file.with_suffix(".new")
    written.write_text(str(seconds))
    written.replace(file)


@pytest.mark.timeout(300)
async def test_no_command_and_no_sandbox_ends_because_a_nodes_clock_jumps(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    set_clocks(wrong, 0)
    async with nats_in(tmp_path / "nats", nodes=("n1",)) as server:
        node = JoinedNode("n1", tmp_path / "n1", values_of(server), CONFIG, partial(skew, wrong))
        try:
            await node.start()
            async with Cloche.connect(node.settings) as cloche:
                sandbox = await cloche.create({"resources": {"timeout_ms": LESS_MS}})
                across = await sandbox.start("read x; echo $x", stdin=True, timeout_ms=300_000)
                work = Work([sandbox])
                later = []
                for turn, seconds in enumerate([HOUR_S, -HOUR_S, 0.0]):
                    set_clocks(wrong, seconds)
                    # What begins while the clock is wrong has its time, too.
                    later.append(await cloche.create({"resources": {"timeout_ms": LESS_MS}}))
                    await work.run(range(turn * 4, turn * 4 + 4), 0.3)
                await across.write(b"still here\n")
                result = await across.wait()
                assert (result.outcome, result.stdout) == ("completed", b"still here\n")
                assert await work.check(cloche) == {"completed": 12}
                for each in (sandbox, *later):
                    assert "sandbox.stopped" not in [event.head.type async for event in each.events()]
                verdict = await verify_log(LiveView(cloche.bus), Trust((), None, ()), lambda *_: None)
                assert verdict.findings == ()
        finally:
            await node.aclose()


async def said(sandbox: Sandbox, run: AgentRun) -> None:
    """Has whoever conducts the run look at it again."""
    await sandbox.agent.guide("look at the clock")
    async with asyncio.timeout(60):
        async for event in run.events(follow=True):
            assert not isinstance(event.fact, facts.AgentCompleted | facts.AgentRejected), await story(run)
            if isinstance(event.fact, facts.UserGuidance):
                return


@pytest.mark.timeout(300)
async def test_no_agent_ends_and_no_question_expires_because_a_nodes_clock_jumps(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    set_clocks(wrong, 0)
    async with nats_in(tmp_path / "nats", nodes=("n1",)) as server:
        node = JoinedNode("n1", tmp_path / "n1", values_of(server), CONFIG, partial(skew, wrong))
        try:
            await node.start()
            async with Cloche.connect(node.settings) as cloche:
                works, asks, pauses = [await cloche.create() for _ in range(3)]
                working = await begin(RIG, works, (WAITS, Say("done")), timeout_ms=LESS_MS)
                pausing = await begin(RIG, pauses, (WAITS, Say("done")), timeout_ms=LESS_MS)
                steps = (Call("touch asked"), Say("done"))
                asking = await begin(RIG, asks, steps, approvals=ASKS, approval_timeout_ms=LESS_MS)
                asked = await until(asking, facts.AgentApprovalRequested)
                for seconds in (HOUR_S, -HOUR_S):
                    await pauses.agent.pause(wait=True)
                    set_clocks(wrong, seconds)
                    await pauses.agent.resume(wait=True)
                    for sandbox, run in ((works, working), (asks, asking), (pauses, pausing)):
                        await said(sandbox, run)
                await asks.agent.approve(asked.approval)
                for sandbox in (works, pauses):
                    await sandbox.run(["touch", "go"])
                for run in (working, asking, pausing):
                    result = await run.wait()
                    assert (result.outcome, result.reason) == ("completed", "done"), await story(run)
                assert (await asks.run(["ls"])).stdout == b"asked\n"
        finally:
            await node.aclose()


@pytest.mark.timeout(300)
async def test_time_and_questions_of_agents_are_over_in_time_though_a_nodes_clock_is_set_back(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    set_clocks(wrong, 0)
    async with nats_in(tmp_path / "nats", nodes=("n1",)) as server:
        node = JoinedNode("n1", tmp_path / "n1", values_of(server), CONFIG, partial(skew, wrong))
        try:
            await node.start()
            async with Cloche.connect(node.settings) as cloche:
                works, asks = [await cloche.create() for _ in range(2)]
                asking = await begin(RIG, asks, (Call("touch asked"),), approvals=ASKS, approval_timeout_ms=SHORT_MS)
                await until(asking, facts.AgentApprovalRequested)
                working = await begin(RIG, works, (WAITS, Say("never")), timeout_ms=SHORT_MS)
                set_clocks(wrong, -HOUR_S)
                assert await told(asking, facts.AgentRejected) == []
                assert (await working.wait()).reason == f"budget: {SHORT_MS} ms", await story(working)
                assert (await asking.wait()).outcome == "completed", await story(asking)
                assert [each.expired for each in await told(asking, facts.AgentRejected)] == [True]
        finally:
            await node.aclose()
