"""Whoever says too much over a WebSocket is read more slowly, and nothing of it is lost."""

from pathlib import Path

from tests.gateway.live.client import Frame, following
from tests.gateway.rig import gateway_in

SETTINGS = "[gateway]\nrequests_per_s = 2.0\nburst = 2\nheartbeat_s = 0.1\n"


async def test_frames_beyond_the_limit_are_answered_one_by_one_as_time_passes(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text(SETTINGS)
    async with gateway_in(tmp_path) as gateway:
        sandbox = await gateway.cloche.create()
        async with following(gateway, sandbox.id, types="guardian") as follower:
            for number in range(6):
                await follower.say(type="ping", id=str(number))
            told: list[Frame] = []
            while not told or told[-1].get("id") != "5":
                told.append(await follower.next())
            assert [frame["id"] for frame in told if frame["type"] == "pong"] == [str(number) for number in range(6)]
            # Two at once; half a second passes before each of the other four.
            assert sum(frame["type"] == "heartbeat" for frame in told) >= 4
