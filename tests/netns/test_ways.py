"""The ways of an ordinary user: into local sandboxes by being their owner, into containers by a neighbour."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.docker.finding import require_engine
from tests.conformance.test_ordinary_user import (
    ORDINARY,
    directory_of_ordinary_user,
    interpreter_for_everyone,
    run_as_ordinary_user,
)
from tests.images import debian
from tests.leftovers import left_under
from tests.services.node import ROOT

CHOSEN = "(served or end_is_noticed or at_once_though) and not docker and not devcontainer"
"""Where being root or not makes a difference."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the suite itself runs as an ordinary user")


async def test_local_sandboxes_are_entered_by_whoever_owns_them() -> None:
    with directory_of_ordinary_user() as base:
        run = [interpreter_for_everyone(), "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", CHOSEN]
        suite = "tests/netns/test_entrance.py"
        done = await asyncio.to_thread(run_as_ordinary_user, [*run, f"--basetemp={base}/tmp", suite])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


NEIGHBOUR = """
import asyncio, sys
from pathlib import Path
from contracts.spec import Docker, Isolation, SandboxSpec
from infra.netns.entrance import Entrance
from infra.netns.errors import LifeIsOver, PortTaken
from infra.sandbox.base import CreateRequest
from infra.sandbox.providers import load_provider
from tests.conformance.inside import Inside
from tests.netns.test_entrance import knock, said_by_first

PORTS = (3128, 3129)

async def main(data, image):
    spec = SandboxSpec(isolation=Isolation.DOCKER, docker=Docker(image=image))
    async with load_provider("docker", data) as provider, Entrance(data) as entrance:
        await provider.create(CreateRequest(sandbox="sb-1", node="node-1", spec=spec))
        inside = await Inside(provider, "sb-1").begin()
        try:
            instance = (await provider.inspect("sb-1")).instance
            entered = await entrance.listen(provider, "sb-1", instance, PORTS)
            print(entered.way)
            heard = asyncio.create_task(said_by_first(entered.listeners[3129]))
            print((await inside.python(knock(3129))).out, await heard)
            print((await inside.python("import socket; print(socket.if_nameindex())")).out)
            try:
                await entrance.listen(provider, "sb-1", instance, PORTS)
            except PortTaken:
                print("taken")
            await provider.stop("sb-1", 0)
            await entered.life_is_over()
            entered.close()
            try:
                await entrance.listen(provider, "sb-1", instance, PORTS)
            except LifeIsOver:
                print("over")
        finally:
            await inside.aclose()
            await provider.remove("sb-1")

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


async def test_a_container_is_listened_in_by_a_neighbour_that_leaves_nothing_behind() -> None:
    image = await asyncio.to_thread(debian)
    with directory_of_ordinary_user() as base:
        done = await asyncio.to_thread(_run_with_engine, [str(base), image])
        assert done.stderr == ""
        assert await asyncio.to_thread(left_under, base) == []
        assert list(Path(base, "run").iterdir()) == []
    way, *rest = done.stdout.splitlines()
    assert "helper container" in way
    assert rest == ["b'heard'", " b'knock'", "[(1, 'lo')]", "", "taken", "over"]


def _run_with_engine(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    engine = require_engine()
    return subprocess.run(
        [interpreter_for_everyone(), "-B", "-c", NEIGHBOUR, *arguments],
        cwd=ROOT,
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[Path(engine.removeprefix("unix://")).stat().st_gid],
        env={"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
