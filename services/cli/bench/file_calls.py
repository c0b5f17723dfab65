"""From asking for a small file, or handing one in, to the answer: on docker, beside a command in the container."""

import time
from collections.abc import Awaitable

from infra.docker.engine import Engine
from services.cli.bench.bare_docker import BareDocker, has_command_line
from services.cli.bench.docker_exec import target_of
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIM = Aim(ratio_below=0.1)
TEXT = "0123456789abcde\n" * 256
READ = ("cat", "/workspace/read")
WRITE = ("sh", "-c", "cat > /workspace/written")


async def file_calls(rig: Rig, sizes: Sizes) -> list[Figure]:
    """On a node whose sandboxes are containers. Nothing where there is no `docker` to compare with."""
    if not has_command_line():
        return []
    sandbox = await rig.cloche.create()
    target = await target_of(rig, sandbox)
    await sandbox.files.write("read", TEXT)
    ours: dict[str, list[float]] = {"read": [], "write": []}
    bare: dict[str, list[float]] = {"read": [], "write": []}
    async with Engine(target.engine) as engine:
        container = BareDocker(engine, target)
        for _ in rig.progress.track(range(sizes.docker_execs), description="files on docker"):
            ours["read"].append(await _timed(sandbox.files.read("read")))
            bare["read"].append(await container.by_command_line(READ) * 1000)
            ours["write"].append(await _timed(sandbox.files.write("written", TEXT)))
            bare["write"].append(await container.by_command_line(WRITE, stdin=TEXT.encode()) * 1000)
    await sandbox.remove()
    return [_figure(verb, ours[verb], bare[verb]) for verb in ours]


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return (time.perf_counter() - began) * 1000


def _figure(verb: str, ours: list[float], bare: list[float]) -> Figure:
    command = "docker exec … cat" if verb == "read" else "docker exec -i … sh -c 'cat > …'"
    return Figure(
        what=f"file of 4 KB on docker, {verb}, p50",
        value=median(ours),
        unit="ms",
        bare=median(bare),
        beside=command,
        aim=AIM,
    )
