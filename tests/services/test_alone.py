"""Each service is a program of its own: it says when it takes orders, and ends when it is told to."""

import asyncio
import os
import resource
import sys
from pathlib import Path

import pytest

from infra.bus.provision import provision
from infra.embedded.server import EmbeddedServer
from infra.keeper.launcher import end_keeper
from tests.services.node import DEFAULTS, ROOT, settings_in
from tests.services.process import SERVICES


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_says_that_it_is_ready_and_ends_when_it_is_told_to(tmp_path: Path, name: str) -> None:
    settings = settings_in(tmp_path)
    async with EmbeddedServer.of(settings) as server:
        async with await server.connect("admin") as admin:
            await provision(admin, settings.limits, [settings.node])
        env = {**os.environ, **DEFAULTS, "CLOCHE_DATA": str(tmp_path)}
        argv = ("sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh", sys.executable, "-m", f"services.{name}")
        process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, env=env, stderr=asyncio.subprocess.PIPE)
        try:
            assert process.stderr is not None
            assert await process.stderr.readline() == f"{name}: ready\n".encode()
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] > 256
            assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)
            process.terminate()
            assert await process.stderr.read() == b""
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await end_keeper(tmp_path, force=True)


def test_every_service_is_tried() -> None:
    assert set(SERVICES) == {path.parent.name for path in (ROOT / "services").glob("*/__main__.py")} - {"cli"}
