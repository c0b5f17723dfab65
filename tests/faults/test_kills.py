"""Anything may be killed at any moment, and the log still tells every command's story exactly once."""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.events.command import CommandLost, Stream
from infra.bus import reader
from infra.client import Cloche
from infra.sandbox.providers import load_provider
from tests.faults.stories import check, expected, run_all, script, stories, under_fire
from tests.services.node import Node, node_in

pytestmark = [pytest.mark.timeout(600)]

COMMANDS = int(os.environ.get("CLOCHE_FAULT_COMMANDS", "200"))


@pytest.mark.parametrize("victim", ["executor", "spawner", "replay", "nats"])
async def test_a_killed_service_loses_nothing_and_repeats_nothing(tmp_path: Path, victim: str) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create(id="sb")
        numbers = range(COMMANDS // 4)

        async def strike() -> None:
            if victim == "nats":
                node.kill_server()
            else:
                await node.restart(victim)

        strikes = await under_fire(run_all(sandbox, numbers), strike, seed=len(victim))
        assert strikes > 0
        await check(cloche, sandbox, numbers)


async def test_everything_killed_at_random_over_hundreds_of_commands(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create(id="sb")
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


async def test_a_killed_client_takes_no_command_with_it(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create(id="sb")
        for number in range(12):
            client = await _client(node, number)
            await asyncio.sleep(0.05 * (number % 5))
            with contextlib.suppress(ProcessLookupError):
                client.send_signal(signal.SIGKILL)
            await client.wait()
        asked = [exec_id for exec_id in [f"n-{number}" for number in range(12)] if await _known(cloche, exec_id)]
        for exec_id in asked:
            assert (await sandbox.execution(exec_id).wait()).outcome == "completed"
        told = await stories(cloche, "sb")
        for exec_id in asked:
            number = int(exec_id.partition("-")[2])
            assert told[exec_id].streams[Stream.STDOUT] == expected(number)[0]


async def _client(node: Node, number: int) -> asyncio.subprocess.Process:
    """A process of its own that asks for a command and follows it; returns once the server has the order."""
    code = (
        "import asyncio, os, sys\n"
        "from cloche import Cloche\n"
        "async def main():\n"
        "    async with Cloche.connect() as cloche:\n"
        "        execution = await (await cloche.sandbox('sb')).start(sys.argv[1], id=sys.argv[2])\n"
        "        print('asked', flush=True)\n"
        "        await execution.wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        script(number),
        f"n-{number}",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "CLOCHE_DATA": str(node.data)},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asked\n"
    return process


async def _known(cloche: Cloche, exec_id: str) -> bool:
    async with asyncio.timeout(30):
        while await reader.last(cloche.bus, subjects.events_of("sb", family="command", scope=exec_id)[0]) is None:
            await asyncio.sleep(0.02)
    return True


async def test_a_killed_keeper_ends_its_commands_as_lost_and_new_ones_work(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create(id="sb")
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
        told = await stories(cloche, "sb")
        assert [story.ends for story in told.values()] == [["lost"], ["completed"]]


async def test_a_keeper_killed_again_and_again_leaves_every_command_with_one_end(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (node, cloche):
        sandbox = await cloche.create(id="sb")

        async def strike() -> None:
            with contextlib.suppress(ClocheError):
                await node.kill_keeper()

        assert await under_fire(run_all(sandbox, range(40)), strike, seed=6) > 0
        told = await stories(cloche, "sb")
        assert len(told) == 40
        for exec_id, story in told.items():
            assert len(story.ends) == 1
            assert story.ends[0] in ("completed", "lost")
            out = expected(int(exec_id.partition("-")[2]))[0]
            assert out.startswith(story.streams[Stream.STDOUT])
        ran = await sandbox.run("for f in ran-*; do wc -l < $f; done | sort -u")
        assert set(ran.stdout.split()) <= {b"0", b"1"}


async def test_a_sandbox_killed_from_outside_is_told_with_its_commands(tmp_path: Path) -> None:
    async with node_in(tmp_path) as (_, cloche):
        sandbox = await cloche.create({"restart": {"policy": "never"}}, id="sb")
        execution = await sandbox.start("echo up; sleep 600")
        async for chunk in execution.output():
            if chunk.data == b"up\n":
                os.kill(await _init_of(tmp_path, "sb"), signal.SIGKILL)
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


def test_the_known_output_is_what_the_script_writes() -> None:
    digests = {hashlib.sha256(expected(number)[0]).hexdigest() for number in range(20)}
    assert len(digests) == 20
