"""Anything may be killed at any moment while commands run in containers, and each still has one whole story."""

import contextlib
import os
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from contracts import codec
from contracts.errors import ClocheError
from contracts.events.command import CommandLost, Stream
from infra.client import Cloche, Sandbox
from tests.docker.containers import engine_client, until
from tests.faults.docker_node import docker_node, spec, target_of
from tests.faults.stories import check, expected, number_of, run_all, stories, under_fire
from tests.services.node import Node

pytestmark = [pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

Running = tuple[Node, Cloche]

ROUND = 50
ENOUGH = int(os.environ.get("CLOCHE_FAULT_COMMANDS", "200"))
EVERYTHING = ("executor", "executor", "spawner", "replay", "nats")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """One for all tests; each has sandboxes of its own."""
    async with docker_node(tmp_path_factory.mktemp("node")) as found:
        yield found


async def strike_at(node: Node, victim: str) -> None:
    if victim == "nats":
        node.kill_server()
    else:
        await node.restart(victim)


async def test_services_killed_at_random_lose_nothing_and_repeat_nothing(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create(spec())
    choice = random.Random(7)
    commands = strikes = 0

    async def strike() -> None:
        await strike_at(node, choice.choice(EVERYTHING))

    while commands < ENOUGH or strikes < 3:
        numbers = range(commands, commands + ROUND)
        strikes += await under_fire(run_all(sandbox, numbers), strike, seed=8 + commands)
        commands += ROUND
        assert commands < 20 * ROUND, "the commands are over before anything can be killed"
    await check(cloche, sandbox, range(commands))


async def runs_there(sandbox: Sandbox, words: bytes) -> bool:
    listed = await sandbox.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    return words in listed.stdout


async def test_a_killed_keeper_ends_its_commands_as_lost_and_nothing_of_them_runs_on(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create(spec())
    execution = await sandbox.start("echo before; setsid sleep 5551 & sleep 5552 & wait")
    async for chunk in execution.output():
        if chunk.data == b"before\n":
            assert await runs_there(sandbox, b"sleep 5551")
            await node.kill_keeper()
    assert execution.result is not None
    assert execution.result.outcome == "lost"
    lost = [event async for event in sandbox.events(types=["command.lost"])]
    fact = codec.decode_fact(lost[0].head)
    assert isinstance(fact, CommandLost)
    assert (fact.cause, fact.totals.stdout) == ("keeper_died", 7)
    for words in (b"sleep 5551 ", b"sleep 5552 "):
        await until(lambda words=words: _gone(sandbox, words), "what the command left is killed")  # type: ignore[misc]
    told = await stories(cloche, sandbox.id)
    assert told[execution.id].ends == ["lost"]
    assert {story.ends[0] for name, story in told.items() if name != execution.id} == {"completed"}


async def _gone(sandbox: Sandbox, words: bytes) -> bool:
    return not await runs_there(sandbox, words)


async def test_a_keeper_killed_again_and_again_leaves_every_command_with_one_end(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create(spec())
    strikes = iter(range(8))

    async def strike() -> None:
        """A keeper that never lives for long enough to open a way into a container would get nothing done."""
        if next(strikes, None) is not None:
            with contextlib.suppress(ClocheError):
                await node.kill_keeper()

    assert await under_fire(run_all(sandbox, range(20)), strike, seed=6) > 0
    told = await stories(cloche, sandbox.id)
    assert len(told) == 20
    for name, story in told.items():
        assert len(story.ends) == 1
        assert story.ends[0] in ("completed", "lost")
        out = expected(number_of(name))[0]
        assert out.startswith(story.streams[Stream.STDOUT])
    ran = await sandbox.run("for f in ran-*; do wc -l < $f; done | sort -u")
    assert set(ran.stdout.split()) <= {b"0", b"1"}


async def test_a_container_killed_from_outside_is_told_with_its_commands_and_starts_again(running: Running) -> None:
    node, cloche = running
    sandbox = await cloche.create({**spec(), "restart": {"policy": "never"}})
    execution = await sandbox.start("echo up; sleep 600")
    async for chunk in execution.output():
        if chunk.data == b"up\n":
            async with engine_client() as docker:
                await docker.containers.container((await target_of(node.data, sandbox.id)).container).kill()
    assert execution.result is not None
    assert execution.result.outcome == "lost"
    async for event in sandbox.events(follow=True, types=["sandbox.stopped"]):
        assert b'"cause":"killed"' in event.raw
        break
    await sandbox.boot()
    assert (await sandbox.run("echo again")).stdout == b"again\n"
