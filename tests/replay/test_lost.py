"""Answers that are made of the log say what the store has lost of it, and so does what is played from it."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from contracts import subjects
from contracts.history import FileAt, FilesAt, ListFilesAt, ReadFileAt
from contracts.lacking import Lack
from contracts.past import GetStateAt, StateAt
from contracts.queries import EventList, GetTerminal, ListEvents, Terminal
from contracts.replays import Playing
from contracts.screens import GetScreen, Screen
from infra.client import Cloche
from infra.client.asking import ask
from infra.log.live import LiveView
from tests.bus.servers import until
from tests.gateway.rig import gateway_in
from tests.gateway.rotten import SANDBOX, spoil, spoil_file


async def lacks(cloche: Cloche, verb: str, query: Any, answer: type[Any]) -> list[tuple[int, int]]:
    found = await ask(cloche.bus, subjects.state_rpc(verb), query, answer)
    return [(lack.first_sequence, lack.last_sequence) for lack in found.lacking]


async def is_known(cloche: Cloche) -> None:
    """The auditor reads the whole log a while after its start."""
    while not await lacks(cloche, "state", GetStateAt(sandbox=SANDBOX), StateAt):
        await asyncio.sleep(0.2)


async def test_every_answer_about_the_past_tells_what_was_lost_up_to_there(tmp_path: Path) -> None:
    before, lost, after = await spoil_file(tmp_path)
    async with gateway_in(tmp_path) as gateway:
        cloche = gateway.cloche
        async with asyncio.timeout(60):
            await is_known(cloche)
        for at, told in ((before, []), (after, [(lost, lost)])):
            for verb, query, answer in (
                ("state", GetStateAt(sandbox=SANDBOX, at=at), StateAt),
                ("screen", GetScreen(sandbox=SANDBOX, at=at), Screen),
                ("files", ListFilesAt(sandbox=SANDBOX, at=at), FilesAt),
                ("file", ReadFileAt(sandbox=SANDBOX, at=at, path="said"), FileAt),
            ):
                assert await lacks(cloche, verb, query, answer) == told, (verb, at)


async def test_a_page_of_events_and_an_output_tell_what_was_lost_within_them(tmp_path: Path) -> None:
    lost = await spoil(tmp_path)
    async with gateway_in(tmp_path) as gateway:
        cloche = gateway.cloche
        async with asyncio.timeout(60):
            await is_known(cloche)
        told = [(lost, lost)]
        whole = ListEvents(sandbox=SANDBOX, limit=1000)
        assert await lacks(cloche, "events", whole, EventList) == told
        assert await lacks(cloche, "events", replace(whole, from_sequence=lost + 1), EventList) == []
        assert await lacks(cloche, "events", replace(whole, limit=1), EventList) == []
        command = await whose(cloche, lost)
        assert await lacks(cloche, "terminal", GetTerminal(sandbox=SANDBOX, exec=command), Terminal) == told
        assert await lacks(cloche, "terminal", GetTerminal(sandbox=SANDBOX), Terminal) == []


async def whose(cloche: Cloche, lost: int) -> str | None:
    """The command of which something was lost."""
    started = subjects.events_of(SANDBOX, family="command", kind="started")
    found = [entry async for entry in LiveView(cloche.bus).read(started, end=lost)]
    return subjects.parse_event(found[-1].subject).scope


async def test_a_paced_replay_tells_what_it_cannot_play_also_what_is_found_only_while_it_plays(tmp_path: Path) -> None:
    lost = await spoil(tmp_path)
    told = (Lack(first_sequence=lost, last_sequence=lost),)
    async with gateway_in(tmp_path) as gateway:
        cloche = gateway.cloche
        async with cloche.replay(SANDBOX, speed=1000.0, keep=True) as early:
            played = [event.sequence async for event in early]
            assert lost not in played
            assert early.status.playing == Playing.ENDED
            async with asyncio.timeout(60):
                await until(lambda: early.status.lacking == told)
        assert [each.lacking for each in (await cloche.replays(SANDBOX)).replays] == [told]

        types = ["command.output"]
        async with cloche.replay(SANDBOX, start=lost, types=types, paused=True) as later:
            assert later.status.first_sequence > lost
            assert later.status.lacking == told
        async with cloche.replay(SANDBOX, end=lost, types=types, paused=True) as earlier:
            assert earlier.status.last_sequence < lost
            assert earlier.status.lacking == told
        async with cloche.replay(SANDBOX, start=lost + 1, paused=True) as after:
            assert after.status.lacking == ()
