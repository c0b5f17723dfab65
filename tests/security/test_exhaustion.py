"""A sandbox that takes all it can get stops at its own limits, and the host goes on."""

from pathlib import Path

import pytest

from infra.sandbox.base import SandboxState
from tests.conformance.inside import Inside, a_sandbox, small
from tests.security.tiers import on_each_tier

pytestmark = pytest.mark.alone


async def is_well(inside: Inside) -> bool:
    inspection = await inside.provider.inspect("sb-1")
    assert inspection is not None
    return inspection.state is SandboxState.RUNNING and (await inside.run("echo", "well")).out == "well\n"


@on_each_tier
async def test_filling_all_files_in_memory_leaves_room_to_work(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, small(memory_mb=512), name) as inside:
        for where in ("/tmp", "/dev/shm"):
            result = await inside.sh(f"dd if=/dev/zero of={where}/fill bs=1M count=1000")
            # In a container /tmp may grow to all of the memory: then it is the writer that ends.
            assert "No space left on device" in result.err or (name, result.code) == ("docker", 137)
        assert await is_well(inside)


@on_each_tier
@pytest.mark.parametrize("where", ["/tmp", "/dev/shm"])
async def test_memory_file_systems_are_bounded(tmp_path: Path, name: str, where: str) -> None:
    async with a_sandbox(tmp_path, small(memory_mb=2048), name) as inside:
        result = await inside.sh(f"dd if=/dev/zero of={where}/fill bs=1M count=1000")
        assert "No space left on device" in result.err
        assert await is_well(inside)


@on_each_tier
async def test_a_file_larger_than_the_disk_limit_fails(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, small(), name) as inside:
        assert (await inside.sh("truncate -s 1024M fits")).ok
        result = await inside.sh("truncate -s 1025M large")
        assert not result.ok
        assert (await inside.provider.disk_usage("sb-1")).bytes < 1 << 20
        assert await is_well(inside)


@on_each_tier
async def test_using_up_descriptors_hurts_only_the_command(tmp_path: Path, name: str) -> None:
    hog = "import os\ntry:\n  while True: os.open('/dev/null', 0)\nexcept OSError as error: print(error.errno)"
    async with a_sandbox(tmp_path, small(), name) as inside:
        assert (await inside.python(hog)).out == "24\n"
        assert await is_well(inside)


@on_each_tier
async def test_no_core_is_dumped(tmp_path: Path, name: str) -> None:
    async with a_sandbox(tmp_path, small(), name) as inside:
        result = await inside.sh("kill -SEGV $$")
        assert result.signal == 11 or (name, result.code) == ("docker", 139)
        assert list(inside.workspace.iterdir()) == []
