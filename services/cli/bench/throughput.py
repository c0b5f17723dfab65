"""How fast a command's output gets into the log, and what that costs in memory."""

import asyncio
import os
import time

from contracts import subjects
from infra.bus import reader
from infra.client import Execution, Sandbox
from services.cli.bench.bare import drop_scratch_stream, make_scratch_stream, timed_publish
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.memory import Growth, watched
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

LINE = "the quick brown fox jumps over the lazy dog and runs on till evening"
MB = 1024 * 1024
AIM_RATIO = 0.6
AIM_GROWTH_MB = 80
BESIDE = "nats-py, 64 KiB messages, window 64"


async def throughput(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    await sandbox.run(["true"])
    ours: list[float] = []
    bare: list[float] = []
    growth = await _growth_of_both(rig, sizes, sandbox, ours, bare)
    followed = await _followed(sandbox, sizes.output_bytes)
    await sandbox.remove()
    rate = sizes.output_bytes / MB
    whole = f"{rate:g} MB of output"
    bare_rate = rate / median(bare)
    return [
        Figure(
            what=f"{whole} into the log",
            value=rate / median(ours),
            unit="MB/s",
            bare=bare_rate,
            beside=BESIDE,
            aim=Aim(ratio_from=AIM_RATIO),
        ),
        Figure(what=f"{whole}, with a follower", value=rate / followed, unit="MB/s", bare=bare_rate, beside=BESIDE),
        Figure(
            what=f"{whole}, growth of services and keeper",
            value=growth.bytes / MB,
            unit="MB",
            aim=Aim(below=AIM_GROWTH_MB),
        ),
    ]


async def _growth_of_both(rig: Rig, sizes: Sizes, sandbox: Sandbox, ours: list[float], bare: list[float]) -> Growth:
    async with watched(*rig.processes) as growth:
        for _ in rig.progress.track(range(sizes.rounds), description="output throughput"):
            ours.append(await _unwatched(rig, sandbox, sizes.output_bytes))
            bare.append(await _bare(rig, sizes.output_bytes))
    return growth


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
