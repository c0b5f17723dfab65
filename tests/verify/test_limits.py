"""A log whose limits drop its oldest events just while it is verified."""

from pathlib import Path

import pytest

from contracts.streams import LOG_STREAM
from contracts.verifying import Trust
from infra.bus.connection import Bus
from infra.bus.reader import Bounds
from infra.log.live import LiveView
from infra.verify.log import verify_log, verify_sandbox
from tests.audit.rig import auditing
from tests.bus.servers import Server, nats_in
from tests.playing.past import record


class Shrinking(LiveView):
    """Loses so many of its oldest events each time that somebody has asked where it begins, but for the last time."""

    def __init__(self, bus: Bus, admin: Bus, times: int) -> None:
        super().__init__(bus)
        self._admin = admin
        self._times = times

    async def bounds(self) -> Bounds:
        found = await super().bounds()
        if self._times:
            self._times -= 1
            config = (await self._admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
            kept = found.last - found.first + 1 - 15
            await self._admin.api(f"STREAM.UPDATE.{LOG_STREAM}", {**config, "max_msgs": kept})
        return found


async def written(server: Server, own: Path) -> None:
    async with auditing(server, own) as audit:
        for number in range(5):
            await record(server, "sb", outputs=[b"x"] * 20, exec=f"e{number}")
        client = await server.connect("client")
        await audit.has_proven((await LiveView(client).bounds()).last)


@pytest.mark.parametrize("times", [1, 2])
async def test_what_the_limits_drop_while_it_is_read_is_not_missing(tmp_path: Path, times: int) -> None:
    async with nats_in(tmp_path) as server:
        await written(server, tmp_path / "own")
        client, admin = await server.connect("client"), await server.connect("admin")
        verdict = await verify_log(Shrinking(client, admin, times), Trust(), lambda *_: None)
        assert verdict.findings == ()
        assert verdict.first_sequence > 15 * times
        assert verdict.proven_to > verdict.proven_from == verdict.first_sequence
        one = await verify_sandbox(Shrinking(client, admin, times), "sb", Trust(), lambda *_: None)
        assert (one.findings, one.proven_from == one.first_sequence) == ((), True)
