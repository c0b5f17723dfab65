"""Anything may be killed at any moment, and the log still tells every command's story exactly once."""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.events.command import CommandLost, Stream
from infra.bus import reader
from infra.client import Cloche
from infra.sandbox.providers import load_provider
from tests.faults.client_process import Client
from tests.faults.stories import check, exec_id, expected, number_of, run_all, stories, under_fire
from tests.services.node import Node, node_in

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

Running = tuple[Node, Cloche]

COMMANDS = int(os.environ.get("CLOCHE_FAULT_COMMANDS", "200"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One for all tests: whatever is killed comes back. Each has a sandbox of its own."""
    async with node_in(tmp_path_factory.mktemp("node")) as found:
        yield found


@pytest.mark.parametrize("victim", ["executor", "spawner", "replay", "nats"])
async def test_a_killed_service_loses_nothing_and_repeats_nothing(running: Running, victim: str) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    numbers = range(COMMANDS // 4)

    async def strike() -> None:
        if victim == "nats":
            node.kill_server()
        else:
            await node.restart(victim)

    strikes = await under_fire(run_all(sandbox, numbers), strike, seed=len(victim))
    assert strikes > 0
    await check(cloche, sandbox, numbers)


async def test_everything_killed_at_random_over_hundreds_of_commands(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    choice = random.Random(4)
    numbers = range(COMMANDS)

    async def strike() -> None:
        victim = choice.choice(["executor", "executor", "spawner", "replay", "nats"])
        if victim == "nats":
            node.kill_server()
        else:
            await node.restart(victim)

    assert await under_fire(run_all(sandbox, numbers), strike, seed=5) >= 3
    await check(cloche, sandbox, numbers)


async def test_a_killed_client_takes_no_command_with_it(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    for number in range(12):
        client = await asyncio.to_thread(Client, node, sandbox.id, number)
        await asyncio.sleep(0.05 * (number % 5))
        await asyncio.to_thread(client.kill)
    asked = [exec_id(sandbox.id, number) for number in range(12)]
    for each in asked:
        await until_known(cloche, sandbox.id, each)
        assert (await sandbox.execution(each).wait()).outcome == "completed"
    told = await stories(cloche, sandbox.id)
    for each in asked:
        assert told[each].streams[Stream.STDOUT] == expected(number_of(each))[0]


async def until_known(cloche: Cloche, sandbox: str, asked: str) -> None:
    async with asyncio.timeout(30):
        while await reader.last(cloche.bus, subjects.events_of(sandbox, family="command", scope=asked)[0]) is None:
            await asyncio.sleep(0.02)


async def test_a_killed_keeper_ends_its_commands_as_lost_and_new_ones_work(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()
    execution = await sandbox.start("echo before; sleep 555 & wait")
    async for chunk in execution.output():
        if chunk.data == b"before\n":
            await node.kill_keeper()
    assert execution.result is not None
    assert execution.result.outcome == "lost"
    assert "keeper" in execution.result.cause
    lost = [event async for event in sandbox.events(types=["command.lost"])]
    fact = codec.decode_fact(lost[0].head)
    assert isinstance(fact, CommandLost)
    assert (fact.cause, fact.totals.stdout) == ("keeper_died", 7)
    again = await sandbox.run("echo after; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert again.stdout.startswith(b"after\n")
    assert b"sleep 555" not in again.stdout
    told = await stories(cloche, sandbox.id)
    assert [story.ends for story in told.values()] == [["lost"], ["completed"]]


async def test_a_keeper_killed_again_and_again_leaves_every_command_with_one_end(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create()

    async def strike() -> None:
        with contextlib.suppress(ClocheError):
            await node.kill_keeper()

    assert await under_fire(run_all(sandbox, range(40)), strike, seed=6) > 0
    told = await stories(cloche, sandbox.id)
    assert len(told) == 40
    for name, story in told.items():
        assert len(story.ends) == 1
        assert story.ends[0] in ("completed", "lost")
        out = expected(number_of(name))[0]
        assert out.startswith(story.streams[Stream.STDOUT])
    ran = await sandbox.run("for f in ran-*; do wc -l < $f; done | sort -u")
    assert set(ran.stdout.split()) <= {b"0", b"1"}


async def test_a_sandbox_killed_from_outside_is_told_with_its_commands(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create({"restart": {"policy": "never"}})
    execution = await sandbox.start("echo up; sleep 600")
    async for chunk in execution.output():
        if chunk.data == b"up\n":
            os.kill(await _init_of(node.data, sandbox.id), signal.SIGKILL)
    assert execution.result is not None
    assert execution.result.outcome == "lost"
    async for event in sandbox.events(follow=True, types=["sandbox.stopped"]):
        assert b'"cause":"killed"' in event.raw
        break
    await sandbox.boot()
    assert (await sandbox.run("echo again")).stdout == b"again\n"


async def _init_of(data: Path, sandbox: str) -> int:
    async with load_provider("local", data) as provider:
        seen = await provider.inspect(sandbox)
    assert seen is not None
    assert seen.pid is not None
    return seen.pid


async def test_the_known_output_is_what_the_script_writes() -> None:
    digests = {hashlib.sha256(expected(number)[0]).hexdigest() for number in range(20)}
    assert len(digests) == 20
