"""A clock that jumps by an hour, forth and back, on the services' side: nothing is stored twice, nothing ends for it.

The server's own clock cannot be set apart: it reads the machine's, and no library can be put in between.
"""

import datetime
import time
from functools import partial
from pathlib import Path

import pytest

from contracts.verifying import Trust
from infra import clock
from infra.client import Cloche
from infra.log.live import LiveView
from infra.verify.log import verify_log
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


@pytest.mark.timeout(300)
async def test_no_command_and_no_sandbox_ends_because_a_nodes_clock_jumps(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("0")
    async with nats_in(tmp_path / "nats", nodes=("n1",)) as server:
        node = JoinedNode("n1", tmp_path / "n1", values_of(server), CONFIG, partial(skew, wrong))
        try:
            await node.start()
            async with Cloche.connect(node.settings) as cloche:
                # The limit of the sandbox is less than the jump.
                sandbox = await cloche.create({"resources": {"timeout_ms": 600_000}})
                across = await sandbox.start("read x; echo $x", stdin=True, timeout_ms=300_000)
                work = Work([sandbox])
                for turn, seconds in enumerate([HOUR_S, -HOUR_S, 0.0]):
                    wrong.write_text(str(seconds))
                    await work.run(range(turn * 4, turn * 4 + 4), 0.3)
                await across.write(b"still here\n")
                result = await across.wait()
                assert (result.outcome, result.stdout) == ("completed", b"still here\n")
                assert await work.check(cloche, struck="") == {"completed": 12}
                assert "sandbox.stopped" not in [event.head.type async for event in sandbox.events()]
                verdict = await verify_log(LiveView(cloche.bus), Trust((), None, ()), lambda *_: None)
                assert verdict.findings == ()
        finally:
            await node.aclose()
