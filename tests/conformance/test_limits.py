"""Limits bite on every tier that says it enforces them, and only inside."""

import os
from pathlib import Path

import pytest

from infra.sandbox.base import SandboxState
from tests.conformance.inside import Inside, a_sandbox, small
from tests.conformance.tiers import TIERS

pytestmark = [pytest.mark.parametrize("name", TIERS), pytest.mark.alone]

HOG = "x = []\nwhile len(x) < 200: x.append(bytearray(b'1' * (16 << 20)))\nprint('got it all')"
BOMB = """
import os, time
made = 0
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError as error:
        print(made, error.errno, flush=True)
        break
    made += 1
"""
BUSY = """
import multiprocessing, time
def work(seconds):
    began, until = time.process_time(), time.monotonic() + seconds
    while time.monotonic() < until: pass
    return time.process_time() - began
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.map(work, [2, 2])))
"""


async def is_well(inside: Inside) -> bool:
    inspection = await inside.provider.inspect("sb-1")
    assert inspection is not None
    return inspection.state is SandboxState.RUNNING and (await inside.run("echo", "well")).out == "well\n"


async def test_a_memory_hog_dies_alone_and_the_kill_is_counted(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, small(), name) as inside:
        before = await inside.provider.oom_kills("sb-1")
        result = await inside.python(HOG)
        assert "got it all" not in result.out
        assert result.signal == 9 or result.code == 137 or "MemoryError" in result.err
        assert await is_well(inside)
        if before is not None:
            assert (await inside.provider.oom_kills("sb-1") or 0) > before
        assert before is not None or os.geteuid() != 0


async def test_a_fork_bomb_stops_at_the_limit(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, small(pids=32), name) as inside:
        command = await inside.start("python3", "-c", BOMB)
        result = await command.wait()
        made, error = map(int, result.out.split())
        assert made <= 32
        assert error == 11
        await inside.provider.stop("sb-1", grace_s=0)
        await inside.begin()
        assert await is_well(inside)


@pytest.mark.skipif(os.geteuid() != 0, reason="CPU is held by a control group only where one can be made")
async def test_a_cpu_hog_gets_its_share(tmp_path: Path, name: str) -> None:
    """Two processes for two seconds would use four, or what the machine has to give; half a processor gives one."""
    async with a_sandbox(tmp_path, small(cpus=0.5), name) as inside:
        used = float((await inside.python(BUSY)).out)
        assert used <= 0.5 * 2 * 1.6
