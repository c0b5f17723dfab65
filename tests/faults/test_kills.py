"""Anything may be killed at any moment, and the log still tells every command's story exactly once."""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from contracts import codec, subjects
from contracts.errors import ClocheError
from contracts.events.command import CommandLost, CommandOutput, CommandStarted, Stream
from contracts.payload import unpack
from contracts.proof import TERMINAL, Proof
from infra.bus import reader
from infra.client import Cloche, Sandbox
from infra.sandbox.providers import load_provider
from tests.services.node import Node, node_in

pytestmark = [pytest.mark.timeout(600)]

COMMANDS = int(os.environ.get("CLOCHE_FAULT_COMMANDS", "200"))
AT_ONCE = 10


def script(number: int) -> str:
    """Known output in both streams, some of it large, some of it slow; leaves a mark of each time that it ran."""
    lines = 1 + number % 7
    return (
        f"echo ran >> /workspace/ran-{number}; "
        f"for i in $(seq {lines}); do echo line {number} $i; echo note {number} $i >&2; sleep 0.0{number % 4}; done; "
        f"head -c {(number % 5) * 40_000} /dev/zero | tr '\\0' 'x'; exit {number % 3}"
    )


def expected(number: int) -> tuple[bytes, bytes, int]:
    lines = range(1, 2 + number % 7)
    out = b"".join(b"line %d %d\n" % (number, line) for line in lines) + b"x" * ((number % 5) * 40_000)
    return out, b"".join(b"note %d %d\n" % (number, line) for line in lines), number % 3


class Story:
    """What the log says of one command."""

    def __init__(self) -> None:
        self.streams: dict[Stream, bytes] = dict.fromkeys(Stream, b"")
        self.starts = 0
        self.ends: list[str] = []
        self.code: int | None = None
        self.cause = ""


async def stories(cloche: Cloche, sandbox: str) -> dict[str, Story]:
    found: dict[str, Story] = {}
    proof = Proof()
    async for entry in reader.read(cloche.bus, subjects.events_of(sandbox), 1, follow=False):
        head = codec.decode_head(entry.data)
        proof.feed(entry.seq, head)
        scope = subjects.parse_event(entry.subject).scope
        if not head.type.startswith("command.") or scope is None:
            continue
        story = found.setdefault(scope, Story())
        fact = codec.decode_fact(head)
        if isinstance(fact, CommandStarted):
            story.starts += 1
        elif isinstance(fact, CommandOutput):
            story.streams[fact.stream] += unpack(fact.data, fact.encoding)
        elif head.type.partition(".")[2] in TERMINAL:
            story.ends.append(head.type.partition(".")[2])
            story.code = getattr(getattr(fact, "exit", None), "code", None)
            story.cause = getattr(fact, "cause", "")
    assert proof.summary().findings == ()
    assert proof.summary().open == ()
    return found


async def run_all(sandbox: Sandbox, numbers: range) -> None:
    """Every command asked for under an id of its own, and again under the same id when the asking went wrong."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with at_once:
            execution = await sandbox.start(script(number), id=f"n-{number}")
            await execution.wait()

    await asyncio.gather(*(one(number) for number in numbers))


async def under_fire(work: Awaitable[None], strike: Callable[[], Awaitable[None]], seed: int) -> int:
    """Strikes again and again, at random moments, until the work is done. Returns how often."""
    moments = random.Random(seed)
    task = asyncio.ensure_future(work)
    strikes = 0
    while not task.done():
        await asyncio.wait([task], timeout=moments.uniform(0.02, 0.6))
        if not task.done():
            await strike()
            strikes += 1
    await task
    return strikes


async def check(cloche: Cloche, sandbox: Sandbox, numbers: range) -> None:
    told = await stories(cloche, sandbox.id)
    for number in numbers:
        story = told[f"n-{number}"]
        out, err, code = expected(number)
        assert (story.starts, story.ends, story.code) == (1, ["completed"], code), number
        assert story.streams[Stream.STDOUT] == out, number
        assert story.streams[Stream.STDERR] == err, number
    ran = await sandbox.run("cat ran-* | wc -l; ls ran-* | wc -l")
    assert ran.stdout.split() == [str(len(numbers)).encode()] * 2


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
        sandbox = await cloche.create(id="sb")
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
