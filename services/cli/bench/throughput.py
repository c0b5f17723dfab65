"""How fast a command's output gets into the log, and what that costs in memory."""

import asyncio
import os
import time
from typing import NamedTuple

from contracts import subjects
from infra.bus import reader
from infra.client import Execution, Sandbox
from services.cli.bench.bare import drop_scratch_stream, make_scratch_stream, timed_publish
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.memory import watched
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

LINE = "the quick brown fox jumps over the lazy dog and runs on till evening"
MB = 1024 * 1024
AIM_RATIO = 0.6
AIM_GROWTH_MB = 80
BESIDE = "nats-py, 64 KiB messages, window 64"


class Seconds(NamedTuple):
    """Of each round."""

    unwatched: list[float]
    followed: list[float]
    bare: list[float]


async def throughput(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    await sandbox.run(["true"])
    seconds = Seconds([], [], [])
    async with watched(*rig.processes) as growth:
        for _ in rig.progress.track(range(sizes.rounds), description="output throughput"):
            seconds.unwatched.append(await _unwatched(rig, sandbox, sizes.output_bytes))
            seconds.bare.append(await _bare(rig, sizes.output_bytes))
            seconds.followed.append(await _followed(sandbox, sizes.output_bytes))
    await sandbox.remove()
    return _figures(seconds, sizes.output_bytes / MB, growth.bytes / MB)


def _figures(seconds: Seconds, size_mb: float, growth_mb: float) -> list[Figure]:
    whole = f"{size_mb:.0f} MB of output"
    return [
        _rate(f"{whole} into the log", seconds.unwatched, seconds.bare, size_mb, Aim(ratio_from=AIM_RATIO)),
        _rate(f"{whole}, with a follower", seconds.followed, seconds.bare, size_mb, None),
        Figure(
            what=f"{whole}, growth of services and keeper", value=growth_mb, unit="MB", aim=Aim(below=AIM_GROWTH_MB)
        ),
    ]


def _rate(what: str, ours: list[float], bare: list[float], size_mb: float, aim: Aim | None) -> Figure:
    return Figure(
        what=what,
        value=size_mb / median(ours),
        unit="MB/s",
        bare=size_mb / median(bare),
        beside=BESIDE,
        ratios=tuple(theirs / mine for mine, theirs in zip(ours, bare, strict=True)),
        aim=aim,
    )


async def _write(sandbox: Sandbox, size: int) -> Execution:
    return await sandbox.start(f"yes '{LINE}' | head -c {size}")


async def _unwatched(rig: Rig, sandbox: Sandbox, size: int) -> float:
    """Nobody reads the output: only the end is waited for."""
    start = (await reader.bounds(rig.cloche.bus)).last + 1
    began = time.perf_counter()
    execution = await _write(sandbox, size)
    ending = subjects.events_of(sandbox.id, family="command", kind="completed", scope=execution.id)
    async for _ in reader.read(rig.cloche.bus, ending, start, follow=True):
        break
    return time.perf_counter() - began


async def _followed(sandbox: Sandbox, size: int) -> float:
    began = time.perf_counter()
    execution = await _write(sandbox, size)
    seen = 0
    async for chunk in execution.output():
        seen += len(chunk.data)
    assert seen == size, f"{seen} of {size} bytes came"
    return time.perf_counter() - began


async def _bare(rig: Rig, size: int) -> float:
    await make_scratch_stream(rig.admin)
    try:
        return await timed_publish(rig.settings, rig.admin.url, f"{LINE}\n".encode(), size)
    finally:
        await drop_scratch_stream(rig.admin)
        # What the server still writes back must not slow down the next round.
        await asyncio.to_thread(os.sync)
