"""A sandbox that takes all it can get stops at its own limits, and the host goes on."""

import os
from pathlib import Path

import pytest

from infra.sandbox.base import SandboxState
from tests.conformance.inside import Inside, a_sandbox, small

pytestmark = pytest.mark.alone


async def is_well(inside: Inside) -> bool:
    inspection = await inside.provider.inspect("sb-1")
    assert inspection is not None
    return inspection.state is SandboxState.RUNNING and (await inside.run("echo", "well")).out == "well\n"


async def test_a_fork_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    bomb = """
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
    async with a_sandbox(tmp_path, small(pids=32)) as inside:
        result = await inside.python(bomb)
        made, error = map(int, result.out.split())
        assert made <= 32
        assert error == 11
        assert (await inside.provider.stats("sb-1")).pids <= 32
        await inside.provider.stop("sb-1", grace_s=0)
        await inside.begin()
        assert await is_well(inside)


async def test_a_memory_hog_dies_alone(tmp_path: Path) -> None:
    hog = "x = []\nwhile len(x) < 200: x.append(bytearray(b'1' * (16 << 20)))\nprint('got it all')"
    async with a_sandbox(tmp_path, small()) as inside:
        result = await inside.python(hog)
        assert "got it all" not in result.out
        assert result.signal == 9 or "MemoryError" in result.err
        assert await is_well(inside)
        if os.geteuid() == 0:
            assert ((await inside.provider.stats("sb-1")).oom_kills or 0) >= 1


async def test_filling_all_files_in_memory_leaves_room_to_work(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, small(memory_mb=512)) as inside:
        for where in ("/tmp", "/dev/shm"):
            result = await inside.sh(f"dd if=/dev/zero of={where}/fill bs=1M count=1000")
            assert "No space left on device" in result.err
        assert await is_well(inside)


@pytest.mark.parametrize("where", ["/tmp", "/dev/shm"])
async def test_memory_file_systems_are_bounded(tmp_path: Path, where: str) -> None:
    async with a_sandbox(tmp_path, small(memory_mb=2048)) as inside:
        result = await inside.sh(f"dd if=/dev/zero of={where}/fill bs=1M count=1000")
        assert "No space left on device" in result.err
        assert await is_well(inside)


async def test_a_file_larger_than_the_disk_limit_fails(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, small()) as inside:
        assert (await inside.sh("truncate -s 1024M fits")).ok
        result = await inside.sh("truncate -s 1025M large")
        assert not result.ok
        assert (await inside.provider.disk_usage("sb-1")).bytes < 1 << 20
        assert await is_well(inside)


async def test_using_up_descriptors_hurts_only_the_command(tmp_path: Path) -> None:
    hog = "import os\ntry:\n  while True: os.open('/dev/null', 0)\nexcept OSError as error: print(error.errno)"
    async with a_sandbox(tmp_path, small()) as inside:
        assert (await inside.python(hog)).out == "24\n"
        assert await is_well(inside)


async def test_no_core_is_dumped(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, small()) as inside:
        result = await inside.sh("kill -SEGV $$")
        assert result.signal == 11
        assert list(inside.workspace.iterdir()) == []
