"""Paced replays on a real server: what followers hear."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.commands.replay import PauseReplay
from contracts.errors import Invalid, SandboxNotFound, SandboxResourceLimitExceeded
from contracts.replays import Playing, Replaying
from contracts.screens import Screen
from infra.bus import gaps, reader
from infra.bus.connection import Bus
from infra.bus.log_state import state_of
from infra.client import Cloche
from infra.client.orders import publish
from infra.client.replay_feed import Feed, Heard
from infra.client.replays import Replay
from services.replay.playing.stage import Stage
from tests.bus.servers import Server, nats_in, until
from tests.playing.past import BEGINNING, all_of, playing_on, record, take

FAST = 10_000.0
EVENTS = 22
"""Of the past that `record` writes."""
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Place:
    def __init__(self, server: Server, stage: Stage, client: Cloche, sequences: list[int]) -> None:
        self.server = server
        self.stage = stage
        self.cloche = client
        self.sequences = sequences

    def play(self, **how: Any) -> AbstractAsyncContextManager[Replay]:
        """Without the dead letters of what the tests were refused."""
        return self.cloche.replay("sb", **{"end": self.sequences[-1], **how})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with nats_in(tmp_path_factory.mktemp("nats")) as server:
        await record(server, "other", outputs=[b"not ours"])
        sequences = await record(server, "sb")
        async with playing_on(server) as stage:
            yield Place(server, stage, Cloche(await server.connect("client")), sequences)


async def test_everything_is_played_verbatim_and_in_order(place: Place) -> None:
    async with place.play(speed=FAST) as replay:
        events = await all_of(replay)
        assert replay.status.playing == Playing.ENDED
        assert replay.status.position == place.sequences[-1]
    assert [event.sequence for event in events] == place.sequences
    logged = [
        entry async for entry in reader.read(place.cloche.bus, subjects.events_of("sb", family="command"), follow=False)
    ]
    assert [(event.subject, event.raw) for event in events] == [(entry.subject, entry.data) for entry in logged]


async def test_original_timing_is_kept_times_the_speed(place: Place) -> None:
    """Twenty-one seconds at this speed: what is due later has not come when it is paused."""
    async with place.play(speed=0.001) as replay:
        assert [event.sequence for event in await take(replay, 1)] == place.sequences[:1]
        assert (await replay.pause()).position == place.sequences[0]


async def test_silences_are_cut_before_the_speed_counts(place: Place) -> None:
    async with place.play(speed=0.001, max_idle_ms=0) as replay:
        assert len(await all_of(replay)) == EVENTS


async def test_silences_of_a_replay_that_does_not_say_are_cut_as_the_settings_do(place: Place) -> None:
    async with nats_in(place.server.data.parent / "idle") as server:
        sequences = await record(server)
        async with playing_on(server, settings=Replaying(max_idle_ms=0)):
            client = Cloche(await server.connect("client"))
            async with client.replay("sb", speed=0.001) as replay:
                assert [event.sequence for event in await all_of(replay)] == sequences


async def test_a_part_and_some_types_can_be_chosen(place: Place) -> None:
    first, last = place.sequences[3], place.sequences[8]
    async with place.play(speed=FAST, start=first, end=last) as replay:
        assert [event.sequence for event in await all_of(replay)] == place.sequences[3:9]
        assert (replay.status.first_sequence, replay.status.last_sequence) == (first, last)
    async with place.play(speed=FAST, types=["command.started", "command.completed"]) as replay:
        assert [event.head.type for event in await all_of(replay)] == ["command.started", "command.completed"]
    async with place.play(speed=FAST, end=place.sequences[-1] - 1, types=["command.started"]) as replay:
        assert replay.status.last_sequence == place.sequences[0]


async def test_it_starts_and_is_sought_by_time(place: Place) -> None:
    stored = await reader.first(place.cloche.bus, subjects.events_of("sb")[0], start=place.sequences[10])
    assert stored is not None
    async with place.play(speed=FAST, start=stored.time, paused=True) as replay:
        assert replay.status.first_sequence == place.sequences[10]
    async with place.play(speed=FAST, end=stored.time, paused=True) as replay:
        assert replay.status.last_sequence == place.sequences[10]
        await replay.seek(time=BEGINNING)
        assert replay.status.position == place.sequences[0] - 1
    async with place.play(paused=True) as replay:
        status = await replay.seek(time=stored.time)
        assert (status.playing, status.position, status.passes) == (Playing.PAUSED, place.sequences[10] - 1, 2)
        await replay.resume(speed=FAST)
        assert [event.sequence for event in await all_of(replay)] == place.sequences[10:]


async def test_steps_are_played_at_once_and_leave_it_paused(place: Place) -> None:
    async with place.play(speed=0.001, paused=True) as replay:
        await replay.step()
        assert [event.sequence for event in await take(replay, 1)] == place.sequences[:1]
        await replay.step(5)
        assert [event.sequence for event in await take(replay, 5)] == place.sequences[1:6]
        status = await replay.pause()
        assert (status.playing, status.position) == (Playing.PAUSED, place.sequences[5])
        await replay.step(1000)
        assert [event.sequence for event in await all_of(replay)] == place.sequences[6:]


async def test_a_replay_that_has_ended_can_be_sought_in(place: Place) -> None:
    async with place.play(speed=FAST) as replay:
        await all_of(replay)
        await replay.seek(sequence=place.sequences[20])
        again = await all_of(replay)
    assert [(event.passes, event.sequence) for event in again] == [(2, each) for each in place.sequences[20:]]


async def test_a_loop_begins_again_until_it_is_stopped(place: Place) -> None:
    async with place.play(speed=FAST, loop=True) as replay:
        events = await take(replay, EVENTS * 3)
        assert [event.sequence for event in events] == place.sequences * 3
        assert [event.passes for event in events] == [1] * EVENTS + [2] * EVENTS + [3] * EVENTS
        assert (await replay.stop()).playing == Playing.STOPPED
        with pytest.raises(Invalid, match="was stopped"):
            await replay.resume()


async def test_the_speed_can_be_changed_in_the_middle(place: Place) -> None:
    async with place.play(speed=0.001, paused=True) as replay:
        assert (await replay.set_speed(0.01)).playing == Playing.PAUSED
        assert (await replay.resume()).speed == 0.01
        assert (await replay.set_speed(FAST)).playing in (Playing.PLAYING, Playing.ENDED)
        assert len(await all_of(replay)) == EVENTS


async def test_whoever_joins_late_gets_every_later_event_once(place: Place) -> None:
    async with place.play(speed=0.001, paused=True) as replay:
        await replay.step(7)
        await take(replay, 7)
        other = Cloche(await place.server.connect("client"))
        async with other.join(replay.id) as late:
            assert late.status.position == place.sequences[6]
            await replay.resume(speed=FAST)
            assert [event.sequence for event in await all_of(late)] == place.sequences[7:]
        listed = await place.cloche.replays("sb")
        assert replay.id in [each.replay for each in listed.replays]
        assert not (await place.cloche.replays("other")).replays


async def test_what_a_follower_could_not_hear_is_read_from_the_log(place: Place) -> None:
    async with place.play(speed=0.001, paused=True) as replay:
        await replay.step(2)
        assert len(await take(replay, 2)) == 2
        await replay.step(8)
        # As after a lost connection: what has come is gone.
        replay._feed._lose()
        assert [event.sequence for event in await take(replay, 8)] == place.sequences[2:10]
        await replay.resume(speed=FAST)
        assert [event.sequence for event in await all_of(replay)] == place.sequences[10:]


async def test_a_killed_server_costs_followers_no_event(place: Place) -> None:
    async with place.play(speed=0.001, paused=True) as replay:
        await replay.step(5)
        assert len(await take(replay, 5)) == 5
        await place.server.kill_and_wait()
        await replay.step(5)
        await replay.resume(speed=FAST)
        assert [event.sequence for event in await all_of(replay)] == place.sequences[5:]


async def test_what_a_lost_connection_may_have_swallowed_is_played_again(place: Place) -> None:
    """Those who had it drop it."""
    async with place.play(speed=0.001, paused=True) as replay:
        await replay.step(5)
        assert len(await take(replay, 5)) == 5
        player = place.stage._players[replay.id]
        player._saved = msgspec.structs.replace(player._saved, position=place.sequences[1])
        player._epoch -= 1
        feed = Feed(place.cloche.bus, replay.id)
        await feed.open()
        await replay.step(6)
        heard: list[int] = []
        while len(heard) < 5:
            each = await feed.next(10)
            assert each is not None
            heard += [each.sequence] if isinstance(each, Heard) else []
        assert heard == place.sequences[2:7]
        await feed.aclose()
        await replay.resume(speed=FAST)
        assert [event.sequence for event in await all_of(replay)] == place.sequences[5:]


async def test_what_cannot_be_played_is_refused_in_words(place: Place) -> None:
    with pytest.raises(SandboxNotFound):
        async with place.cloche.replay("nobody"):
            pass
    with pytest.raises(Invalid, match="nothing of 'sb'"):
        async with place.cloche.replay("sb", types=["agent"]):
            pass
    with pytest.raises(Invalid, match="no replay 'r-none'"):
        async with place.cloche.join("r-none"):
            pass


async def test_orders_for_a_replay_that_is_not_there_are_dead_letters(place: Place) -> None:
    async with place.play(paused=True) as replay:
        for sandbox, named, why in (("sb", "r-none", "no replay"), ("other", replay.id, "another sandbox")):
            command = await publish(place.cloche.bus, subjects.ANY_NODE, sandbox, PauseReplay(replay=named))
            letters = subjects.events_of(sandbox, family=subjects.DEAD_LETTER, scope=command)
            async for entry in reader.read(place.cloche.bus, letters, follow=True):
                assert why in codec.decode_fact(codec.decode_head(entry.data)).reason.message  # type: ignore[union-attr]
                break


async def test_fifty_replays_at_once_are_all_played_whole(place: Place) -> None:
    async def one(number: int) -> list[int]:
        async with place.play(speed=50.0 + number) as replay:
            return [event.sequence for event in await all_of(replay)]

    assert await asyncio.gather(*(one(number) for number in range(50))) == [place.sequences] * 50


async def test_screens_come_before_what_follows(place: Place) -> None:
    asked: list[tuple[str, int]] = []

    async def screens_at(sandbox: str, sequence: int) -> tuple[Screen, ...]:
        asked.append((sandbox, sequence))
        return (Screen(exec="e1", sequence=sequence, pty=False, cols=80, rows=1, lines=("line 1",)),)

    async with nats_in(place.server.data.parent / "beside") as server:
        sequences = await record(server)
        async with playing_on(server, screens_at=screens_at):
            client = Cloche(await server.connect("client"))
            async with client.replay("sb", paused=True) as replay:
                await replay.step(3)
                await take(replay, 3)
                async with client.join(replay.id) as late:
                    assert late.screens[0].lines == ("line 1",)
                    assert asked == [("sb", sequences[2])]
                    await replay.step(2)
                    assert [event.sequence for event in await take(late, 2)] == sequences[3:5]


async def test_no_more_than_the_settings_allow_are_under_way(place: Place) -> None:
    async with nats_in(place.server.data.parent / "few") as server:
        await record(server)
        async with playing_on(server, settings=Replaying(max_replays=2)):
            client = Cloche(await server.connect("client"))
            async with client.replay("sb", paused=True), client.replay("sb", paused=True, keep=True) as second:
                with pytest.raises(SandboxResourceLimitExceeded, match="2 replays are under way"):
                    async with client.replay("sb"):
                        pass
                await second.stop()
                async with client.replay("sb", paused=True) as third:
                    assert third.status.playing == Playing.PAUSED


async def test_two_services_play_each_replay_once_and_know_of_all(place: Place) -> None:
    """The second takes what the first was playing when that is gone."""
    async with nats_in(place.server.data.parent / "two") as server:
        sequences = await record(server)
        client = Cloche(await server.connect("client"))
        async with playing_on(server) as second:
            slow = client.replay("sb", speed=0.001, paused=True, keep=True)
            async with playing_on(server) as first, slow as replay:
                await replay.step(4)
                heard = await take(replay, 4)
                assert len({replay.id} & set(first._players)) + len({replay.id} & set(second._players)) == 1
                await replay.resume(speed=20)
                for stage in (first, second, first, second):
                    heard += await take(replay, 1)
                    known = await stage.record_of(replay.id)
                    assert known is not None
                    assert known.position >= heard[-1].sequence
                await replay.pause()
                while heard[-1].sequence < replay.status.position:
                    heard += await take(replay, 1)
            await until(lambda: replay.id in second._players)
            async with client.join(replay.id) as late:
                await late.resume(speed=FAST)
                heard += await all_of(late)
            assert [event.sequence for event in heard] == sequences


async def test_whoever_plays_keeps_his_replays_while_the_log_does_not_say_how_it_stands(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, over = asyncio.Event(), asyncio.Event()
    answer = state_of

    async def silent(bus: Bus) -> dict[str, Any]:
        asked.set()
        await over.wait()
        return await answer(bus)

    async with nats_in(place.server.data.parent / "silent") as server:
        sequences = await record(server)
        client = Cloche(await server.connect("client"))
        async with (
            playing_on(server) as first,
            playing_on(server) as second,
            client.replay("sb", paused=True) as replay,
        ):
            owner, other = (first, second) if replay.id in first._players else (second, first)
            await until(lambda: owner._owner in other._shelf._beats)
            monkeypatch.setattr(gaps, "LOOK_AGAIN_S", 0.0)
            monkeypatch.setattr(gaps, "state_of", silent)
            await asked.wait()
            for _ in range(3):
                last = other._shelf._beats[owner._owner]
                await until(lambda before=last: other._shelf._beats[owner._owner] > before, seconds=10)  # type: ignore[misc]
            await replay.resume(speed=FAST)
            assert [event.sequence for event in await all_of(replay)] == sequences
            assert list(owner._players) == [replay.id]
            # The other tests' stage has asked, too.
            over.set()


async def test_what_is_over_is_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.play(speed=FAST) as replay:
        await all_of(replay)
        monkeypatch.setattr("services.replay.playing.stage.FORGET_S", 0.0)

        async def is_forgotten() -> bool:
            return replay.id not in [each.replay for each in (await place.cloche.replays()).replays]

        await until(is_forgotten)
        with pytest.raises(Invalid, match="no replay"):
            await replay.seek(sequence=1)
