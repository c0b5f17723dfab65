"""Where nothing happens, that is said: every 30 seconds, unless the settings say otherwise."""

from pathlib import Path

from infra.configuration import load
from tests.gateway.rig import gateway_in


def test_the_heart_beats_every_thirty_seconds(tmp_path: Path) -> None:
    assert load({"CLOCHE_DATA": str(tmp_path)}).gateway.heartbeat_s == 30


async def test_an_event_stream_has_heartbeats_that_are_no_events(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text("[gateway]\nheartbeat_s = 0.2\n")
    async with gateway_in(tmp_path) as gateway, gateway.client() as client:
        sandbox = await gateway.cloche.create()
        path = f"/api/v1/sandboxes/{sandbox.id}/events/stream?types=guardian"
        async with client.stream("GET", path) as answer:
            lines = answer.aiter_lines()
            beats = 0
            while beats < 3:
                line = await anext(lines)
                # An id would be taken for a place in the log that the client has seen.
                assert not line.startswith("id:")
                beats += line.startswith('data: {"type":"heartbeat","timestamp":')
