"""Commands that nobody takes become dead letters."""

import json
from pathlib import Path

import pytest

from contracts.streams import COMMANDS_STREAM
from infra.bus import reader
from infra.bus.publisher import append
from infra.bus.strays import matches, sweep
from tests.bus.servers import dead_letter, nats_in, stored

STRAY = (
    "cloche.cmd.elsewhere.sb.command.run",
    "cloche.cmd.local.sb.nonsense.run",
    "cloche.cmd.local.sb",
    "cloche.cmd.x",
    "cloche.cmd.any.sb.command.run",
)
COVERED = (
    "cloche.cmd.local.sb.command.run",
    "cloche.cmd.any.sb.sandbox.create",
    "cloche.cmd.local.sb.sandbox.odd.verb",
)


async def test_what_no_consumer_covers_is_buried_and_the_rest_is_left(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        client, spawner, admin = [await server.connect(user) for user in ("client", "spawner", "admin")]
        for number, subject in enumerate((*STRAY, *COVERED)):
            await append(client, subject, b"{}", f"c{number}", stream=COMMANDS_STREAM)
        assert await sweep(spawner, dead_letter, min_age_s=0) == len(STRAY)
        assert await stored(admin, COMMANDS_STREAM) == len(COVERED)
        letters = [json.loads(e.data) async for e in reader.read(spawner, ["cloche.log.>"], follow=False)]
        assert sorted(letter["subject"] for letter in letters) == sorted(STRAY)
        assert await sweep(spawner, dead_letter, min_age_s=0) == 0


async def test_a_young_stray_is_left_alone(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        client, spawner = await server.connect("client"), await server.connect("spawner")
        await append(client, STRAY[0], b"{}", "c", stream=COMMANDS_STREAM)
        assert await sweep(spawner, dead_letter, min_age_s=3600) == 0
        assert await sweep(spawner, dead_letter, min_age_s=0) == 1


async def test_a_sweep_that_was_cut_short_writes_no_second_letter(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        client, spawner, admin = [await server.connect(user) for user in ("client", "spawner", "admin")]
        ack = await append(client, STRAY[0], b"{}", "c", stream=COMMANDS_STREAM)
        from contracts.errors import Failure

        letter = dead_letter(STRAY[0], b"{}", Failure(code="X", message="m"), delivered=0, sequence=ack.seq)
        await append(spawner, *letter)
        assert await sweep(spawner, dead_letter, min_age_s=0) == 1
        assert await stored(admin) == 1


async def test_an_empty_queue_costs_one_request(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        spawner = await server.connect("spawner")
        before = spawner.client.stats["out_msgs"]
        assert await sweep(spawner, dead_letter) == 0
        assert spawner.client.stats["out_msgs"] == before + 1


@pytest.mark.parametrize(
    ("subject", "pattern", "expected"),
    [
        ("a.b.c", "a.b.c", True),
        ("a.b.c", "a.*.c", True),
        ("a.b.c", "a.>", True),
        ("a", "a.>", False),
        ("a.b", "a.b.>", False),
        ("a.b.c", "a.b", False),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.*", False),
    ],
)
def test_subjects_match_as_the_server_matches_them(subject: str, pattern: str, expected: bool) -> None:
    assert matches(subject, pattern) is expected
