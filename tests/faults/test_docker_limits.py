"""What a container may have ends where it was told, and the log says why."""

import os
from pathlib import Path

import pytest

from contracts import codec
from contracts.events.command import CommandCompleted
from contracts.events.sandbox import SandboxStopped
from tests.faults.docker_node import docker_node, spec
from tests.faults.stories import stories

pytestmark = [pytest.mark.timeout(120), pytest.mark.alone]


@pytest.mark.skipif(os.geteuid() != 0, reason="the counters of another user's container cannot be read")
async def test_a_memory_hog_ends_with_the_cause_oom_and_an_ordinary_kill_does_not(tmp_path: Path) -> None:
    async with docker_node(tmp_path) as (_, cloche):
        sandbox = await cloche.create(spec(memory_mb=512), id="sb")
        hog = await sandbox.run("echo begun; exec tail -n 1 < /dev/zero")
        assert (hog.outcome, hog.cause, hog.exit_code, hog.stdout) == ("completed", "oom", 137, b"begun\n")
        killed = await sandbox.run("kill -KILL $$")
        assert (killed.exit_code, killed.cause) == (137, "exited")
        assert (await sandbox.run("echo well")).stdout == b"well\n"
        ends = [codec.decode_fact(event.head) async for event in sandbox.events(types=["command.completed"])]
        assert [end.cause for end in ends if isinstance(end, CommandCompleted)] == ["oom", "exited", "exited"]


async def test_a_workspace_beyond_its_disk_limit_stops_the_sandbox_and_ends_its_commands(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text("[intervals]\nhealth_s = 0.2\n")
    async with docker_node(tmp_path) as (_, cloche):
        sandbox = await cloche.create(spec(disk_mb=1024), id="sb")
        # Each file is within the limit of one file; the space is taken and never written.
        execution = await sandbox.start("fallocate -l 700M a && fallocate -l 700M b && echo filled; sleep 600")
        result = await execution.wait()
        assert (result.outcome, result.stdout) == ("lost", b"filled\n")
        async for event in sandbox.events(follow=True, types=["sandbox.stopped"]):
            stopped = codec.decode_fact(event.head)
            assert isinstance(stopped, SandboxStopped)
            assert stopped.failure is not None
            assert (stopped.failure.code, stopped.failure.details["limit"]) == (
                "SANDBOX_RESOURCE_LIMIT_EXCEEDED",
                "disk",
            )
            break
        assert (await stories(cloche, "sb"))[execution.id].ends == ["lost"]
        await sandbox.remove()


async def test_a_fork_bomb_stays_within_its_sandbox_and_another_works(tmp_path: Path) -> None:
    async with docker_node(tmp_path) as (_, cloche):
        bombed = await cloche.create(spec(pids=40), id="bombed")
        other = await cloche.create(spec(), id="other")
        bomb = await bombed.run("i=0; while [ $i -lt 200 ]; do sleep 900 & i=$((i+1)); done; echo all began")
        assert b"all began" not in bomb.stdout
        assert (await other.run("echo well")).stdout == b"well\n"
        await bombed.stop(grace_ms=0)
        await bombed.boot()
        assert (await bombed.run("echo well again")).stdout == b"well again\n"
