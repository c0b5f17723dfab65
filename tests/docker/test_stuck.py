"""A container whose processes stop one another cannot hold up its engine."""

import asyncio
from pathlib import Path

from infra.docker.stuck import set_frozen
from infra.sandbox.base import SandboxState
from infra.target import DockerTarget
from tests.conformance.inside import a_sandbox, until

STOPS_WHATEVER_IT_FINDS = """
echo ready
while :; do
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    case $p in 1 | 7 | $$) ;; *) kill -STOP $p 2>/dev/null ;; esac
  done
done
"""


async def test_a_container_that_stops_every_new_process_can_be_looked_at_and_removed(tmp_path: Path) -> None:
    """The runtime's own process is caught before it is the command, and the engine waits for it with a lock held."""
    async with a_sandbox(tmp_path, name="docker") as inside:
        hostile = await inside.start("/bin/sh", "-c", STOPS_WHATEVER_IT_FINDS)
        await until(lambda: "ready" in hostile.out, "the loop runs")
        begun = [asyncio.create_task(inside.start("true")) for _ in range(3)]
        # Long enough for the engine to start what they need.
        await asyncio.sleep(1)
        async with asyncio.timeout(60):
            assert await inside.provider.inspect("sb-1") is not None
            await inside.provider.remove("sb-1")
            assert await inside.provider.inspect("sb-1") is None
        await asyncio.wait(begun, timeout=60)


async def test_a_pause_while_a_command_begins_is_a_pause(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, name="docker") as inside:
        for _ in range(5):
            await inside.run("true")
            async with asyncio.timeout(60):
                await inside.provider.pause("sb-1")
                inspection = await inside.provider.inspect("sb-1")
                assert inspection is not None
                assert inspection.state is SandboxState.PAUSED
                await inside.provider.resume("sb-1")
            assert (await inside.run("echo", "on")).out == "on\n"


async def test_a_pause_that_an_engine_was_helped_out_of_still_has_an_end(tmp_path: Path) -> None:
    """Else the engine would take it for paused for ever."""
    async with a_sandbox(tmp_path, name="docker") as inside:
        target = await inside.provider.target("sb-1")
        assert isinstance(target, DockerTarget)
        for end in (inside.provider.resume, inside.provider.stop):
            await inside.provider.pause("sb-1")
            await asyncio.to_thread(set_frozen, target.container, frozen=False)
            await end("sb-1")
        stopped = await inside.provider.inspect("sb-1")
        assert stopped is not None
        assert stopped.state is SandboxState.STOPPED
