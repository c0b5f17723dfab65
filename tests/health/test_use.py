"""What is measured for nothing is what is measured with care."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.sandbox.local import processes
from tests.conformance.inside import a_sandbox
from tests.conformance.tiers import TIERS


@pytest.mark.parametrize("tier", [tier for tier in TIERS if tier != "devcontainer"])
async def test_use_is_what_the_statistics_say_without_the_disk(tmp_path: Path, tier: str) -> None:
    async with a_sandbox(tmp_path, name=tier) as inside:
        await inside.sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
        await inside.start("sleep", "1000")
        seen = await inside.provider.inspect("sb-1")
        assert seen is not None
        assert seen.pid is not None
        before = await inside.provider.stats("sb-1")
        use = await inside.provider.use("sb-1", seen.pid)
        after = await inside.provider.stats("sb-1")
        assert before.cpu_seconds <= use.cpu_seconds <= after.cpu_seconds
        assert use.cpu_seconds > 0
        assert (use.pids >= 2, use.memory_bytes > 0) == (True, True)
        assert (use.network_in_bytes, use.network_out_bytes) == (None, None), "it has only a loopback"


def test_everything_below_a_process_is_found_whichever_way_the_kernel_tells() -> None:
    code = "import subprocess; subprocess.run(['sh', '-c', 'echo up; exec cat'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
            told = {process.pid for process in processes.descendants(child.pid)}
            looked_up = processes._all_children()
            (grandchild,) = looked_up(child.pid)
            assert told == {child.pid, grandchild.pid}
            assert child.pid in {process.pid for process in looked_up(os.getpid())}
        finally:
            child.communicate(b"")
