"""The engine itself is killed in the middle of commands, and comes back."""

import asyncio
from pathlib import Path

import pytest

from contracts import codec
from contracts.errors import ClocheError, SandboxError
from contracts.events.command import CommandLost
from contracts.events.sandbox import SandboxStopped
from infra.client import Cloche, Execution, Sandbox
from tests.docker.own_engine import OwnEngine
from tests.faults.docker_node import docker_node, spec
from tests.faults.stories import stories
from tests.images import busybox

pytestmark = [pytest.mark.timeout(300)]


async def up(sandbox: Sandbox) -> Execution:
    execution = await sandbox.start("echo up; sleep 600")
    async for chunk in execution.output():
        assert chunk.data == b"up\n"
        break
    return execution


async def stop_of(sandbox: Sandbox) -> SandboxStopped:
    async for event in sandbox.events(follow=True, types=["sandbox.stopped"]):
        fact = codec.decode_fact(event.head)
        assert isinstance(fact, SandboxStopped)
        return fact
    raise AssertionError("the log ended")


async def is_told_as_lost(sandbox: Sandbox, execution: Execution) -> None:
    assert (await execution.wait()).outcome == "lost"
    lost = [codec.decode_fact(event.head) async for event in sandbox.events(types=["command.lost"])]
    fact = next(each for each in lost if isinstance(each, CommandLost) and each.exec == execution.id)
    assert fact.cause in ("sandbox_gone", "connection_lost")
    assert fact.totals.stdout == 3


async def works(cloche: Cloche, name: str, image: str) -> None:
    sandbox = await cloche.create(spec(image), id=name)
    assert (await sandbox.run("echo works")).stdout == b"works\n"
    await sandbox.remove()


async def test_an_engine_killed_and_back_ends_what_it_held_with_a_cause_and_then_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OwnEngine() as own:
        monkeypatch.setenv("DOCKER_HOST", own.address)
        image = await asyncio.to_thread(busybox, own.address)
        async with docker_node(tmp_path) as (_, cloche):
            sandbox = await cloche.create({**spec(image), "restart": {"policy": "never"}}, id="sb")
            execution = await up(sandbox)
            await own.kill()
            await own.start()
            async with asyncio.timeout(90):
                await is_told_as_lost(sandbox, execution)
                stopped = await stop_of(sandbox)
            assert stopped.failure is not None
            assert stopped.failure.code == "SANDBOX_DIED"
            assert stopped.failure.details["cause"] == "engine_lost"
            await sandbox.boot()
            assert (await sandbox.run("echo again; ps | grep -c 'sleep 60[0]'")).stdout == b"again\n0\n"
            await works(cloche, "new", image)
            told = await stories(cloche, "sb")
            assert told[execution.id].ends == ["lost"]
            await sandbox.remove()


async def test_services_that_come_back_before_the_engine_does_tell_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloche.toml").write_text("[intervals]\nhealth_s = 0.2\n")
    async with OwnEngine() as own:
        monkeypatch.setenv("DOCKER_HOST", own.address)
        image = await asyncio.to_thread(busybox, own.address)
        async with docker_node(tmp_path) as (node, cloche):
            sandbox = await cloche.create({**spec(image), "restart": {"policy": "never"}}, id="sb")
            execution = await up(sandbox)
            await own.kill()
            with pytest.raises(ClocheError, match="engine"):
                await cloche.create(spec(image), id="away")
            await asyncio.gather(*(node.restart(name) for name in ("spawner", "executor", "health_monitor")))
            waiting = await sandbox.start("echo never")
            await own.start()
            async with asyncio.timeout(90):
                await is_told_as_lost(sandbox, execution)
                assert (await stop_of(sandbox)).failure is not None
                with pytest.raises(SandboxError):
                    await waiting.wait()
            await works(cloche, "new", image)
            await sandbox.remove()
            told = await stories(cloche, "sb")
            assert (told[execution.id].ends, told[waiting.id].ends) == (["lost"], ["rejected"])
