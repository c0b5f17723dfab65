"""A replay goes on when its service is killed, and a follower hears every event once."""

import asyncio
from pathlib import Path

from contracts.replays import Playing
from infra.client import Cloche
from infra.client.replays import Played, Replay
from infra.configuration import load
from tests.bus.servers import nats_in, until
from tests.playing.past import create, record, take
from tests.services.node import Service

OUTPUTS = tuple(b"%d\r\n" % number for number in range(200))


async def test_a_killed_service_goes_on_where_it_was(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        await create(server)
        sequences = await record(server, outputs=OUTPUTS, every_s=0.06)
        service = Service("replay", server.data, {})
        await service.start()
        try:
            client = Cloche(await server.connect("client"))
            waiting = client.replay("sb", paused=True, types=["command"], keep=True)
            playing = client.replay("sb", speed=4.0, types=["command"])
            async with waiting as paused, playing as replay:
                await paused.step(5)
                await take(paused, 5)
                events: list[Played] = []
                reading = asyncio.create_task(_read(replay, events))
                await until(lambda: len(events) >= 50)
                await service.kill()
                await service.start()
                await reading
                assert replay.status.playing == Playing.ENDED
                async with client.join(paused.id) as late:
                    assert (late.status.playing, late.status.position) == (Playing.PAUSED, sequences[4])
                    # What four outputs have left on the screen of the one command.
                    assert [line for line in late.screens[0].lines if line] == ["0", "1", "2", "3"]
                    await late.step(3)
                    assert [event.sequence for event in await take(late, 3)] == sequences[5:8]
        finally:
            await service.kill()
        assert {event.passes for event in events} == {1}
        assert [event.sequence for event in events] == sequences


async def _read(replay: Replay, events: list[Played]) -> None:
    async for event in replay:
        events.append(event)


def test_settings_of_a_replay_are_read(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text("[replay]\nmax_replays = 3\nmax_idle_ms = 10\n")
    settings = load({"CLOCHE_DATA": str(tmp_path)})
    assert (settings.replay.max_replays, settings.replay.max_idle_ms) == (3, 10)
