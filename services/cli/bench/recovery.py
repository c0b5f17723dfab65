"""From a sandbox's death to its being back, with an empty workspace and with one of many files."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from contracts.errors import Unavailable
from contracts.spec import Isolation
from infra.client import Sandbox
from infra.docker.containers import Containers
from infra.docker.engine import Engine
from infra.docker.finding import find_engine
from infra.sandbox.base import Provider
from infra.sandbox.providers import load_provider
from infra.target import DockerTarget
from services.cli.bench.bare import bubblewrap, timed
from services.cli.bench.bare_docker import has_command_line
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AGAIN_AND_AGAIN = {"restart": {"policy": "always", "max_attempts": 100, "backoff_ms": 0}}
"""So that what is measured is the recovery, and not the wait before it."""
BACK_S = 60.0
PERCENTS = (50, 99)
DIED_MS = 2000
TOLD = ("health.died", "sandbox.recovered")


class Took(NamedTuple):
    """Milliseconds from the death."""

    died: float
    recovered: float


async def recovery(rig: Rig, sizes: Sizes) -> list[Figure]:
    isolation = rig.settings.sandbox.isolation
    assert isolation is not None
    figures: list[Figure] = []
    async with load_provider(isolation, rig.settings.data) as provider:
        for files in (0, sizes.workspace_files):
            sandbox = await rig.cloche.create(AGAIN_AND_AGAIN)
            await _fill(sandbox, files)
            deaths = rig.progress.track(range(sizes.deaths), description=f"deaths on {isolation}, {files} files")
            took: list[Took] = []
            bare: list[float] = []
            for _ in deaths:
                took.append(await _die(provider, sandbox))
                bare.append(await _bare_ms(rig))
            figures += _figures(f"on {isolation}, {files or 'no'} files", took, bare, _beside(isolation))
            if files:
                restored = [await _restored_ms(sandbox) for _ in range(sizes.deaths)]
                figures += _of(
                    f"{files} files restored from the log on {isolation}", restored, bare, _beside(isolation)
                )
            await sandbox.remove()
    return figures


async def _fill(sandbox: Sandbox, files: int) -> None:
    made = await sandbox.run(f"i=0; while [ $i -lt {files} ]; do echo content $i > file-$i; i=$((i+1)); done")
    if made.exit_code != 0:
        raise Unavailable(f"the workspace cannot be filled: {made.stderr!r}")
    await sandbox.flush()


async def _die(provider: Provider, sandbox: Sandbox) -> Took:
    kill = await _killer(provider, sandbox)
    following = asyncio.create_task(_follow(sandbox, await _last(sandbox)))
    began = time.perf_counter()
    await kill()
    async with asyncio.timeout(BACK_S):
        times = await following
    return Took(*((times[tag] - began) * 1000 for tag in TOLD))


async def _last(sandbox: Sandbox) -> int:
    """The last event about its life."""
    last = sandbox.state.lifecycle_sequence
    async for event in sandbox.events(types=TOLD):
        last = max(last, event.sequence)
    return last


async def _follow(sandbox: Sandbox, since: int) -> dict[str, float]:
    times: dict[str, float] = {}
    async for event in sandbox.events(since + 1, types=TOLD, follow=True):
        times[event.head.type] = time.perf_counter()
        if len(times) == len(TOLD):
            break
    return times


async def _killer(provider: Provider, sandbox: Sandbox) -> Callable[[], Awaitable[None]]:
    """What ends the sandbox's first process, with nothing left to look up."""
    seen = await provider.inspect(sandbox.id)
    if seen is None or seen.pid is None:
        raise Unavailable(f"{sandbox.id} does not run")
    pid, target = seen.pid, await provider.target(sandbox.id)

    async def kill() -> None:
        if isinstance(target, DockerTarget):
            async with Engine(target.engine) as engine:
                await Containers(engine).kill(target.container, "SIGKILL")
        else:
            os.kill(pid, signal.SIGKILL)

    return kill


async def _restored_ms(sandbox: Sandbox) -> float:
    sequence = (await sandbox.flush()).sequence
    began = time.perf_counter()
    await sandbox.recover(at=sequence)
    return (time.perf_counter() - began) * 1000


async def _bare_ms(rig: Rig) -> float:
    """A fresh sandbox of the same kind without Cloche. 0 where there is nothing to make one with."""
    if rig.settings.sandbox.isolation == Isolation.LOCAL:
        return await timed(bubblewrap("true")) * 1000
    if not has_command_line():
        return 0
    docker, name = ["docker", "--host", str(find_engine())], f"cloche-bench-{secrets.token_hex(6)}"
    run = [*docker, "run", "--detach", "--network", "none", "--name", name, rig.settings.sandbox.docker.image]
    try:
        return await timed([*run, "sh", "-c", "sleep 600"]) * 1000
    finally:
        await timed([*docker, "rm", "--force", name])


def _beside(isolation: Isolation) -> str:
    return "bwrap … true" if isolation == Isolation.LOCAL else "docker run -d"


def _figures(where: str, took: list[Took], bare: list[float], beside: str) -> list[Figure]:
    died = _of(f"death → `health.died` {where}", [each.died for each in took], [], "", Aim(below=DIED_MS))
    return died + _of(f"death → `sandbox.recovered` {where}", [each.recovered for each in took], bare, beside)


def _of(what: str, values: list[float], bare: list[float], beside: str, aim: Aim | None = None) -> list[Figure]:
    measured = bare if any(bare) else []
    return [
        Figure(
            what=f"{what}, p{percent}",
            value=percentile(values, percent),
            unit="ms",
            bare=percentile(measured, percent) if measured else None,
            beside=beside if measured else "",
            aim=aim,
        )
        for percent in PERCENTS
    ]
