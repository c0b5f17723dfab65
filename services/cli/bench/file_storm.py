"""Thousands of files at once: how long until the log has them all, with their contents."""

import asyncio
import shutil
import time
from pathlib import Path

from infra.client import Sandbox
from services.cli.bench.figure import Figure
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes
from services.cli.bench.watchfiles_process import has_watchfiles, printing

DIRECTORIES = 100
QUIET_S = 5.0
"""watchfiles may miss some; whoever waits for the last one would wait for ever."""
MAKE_DIRECTORIES = f"import os\nfor d in range({DIRECTORIES}): os.mkdir(f'd{{d}}')"
MAKE_FILES = f"""
import sys
for number in range(int(sys.argv[1])):
    with open(f"d{{number % {DIRECTORIES}}}/{{number}}", "w") as file:
        file.write(f"file {{number}}\\n" * 20)
"""


async def file_storm(rig: Rig, sizes: Sizes) -> list[Figure]:
    ours: list[float] = []
    bare: list[float] = []
    compares = await has_watchfiles()
    for number in rig.progress.track(range(max(1, sizes.rounds // 2)), description="storm of files"):
        sandbox = await rig.cloche.create()
        ours.append(await _until_told(sandbox, sizes.files))
        await sandbox.remove()
        if compares:
            bare.append(await _until_printed(rig.settings.data / f"storm-{number}", sizes.files))
    return [
        Figure(
            what=f"{sizes.files:,} files written → all in the log, contents stored",
            value=median(ours),
            unit="s",
            bare=median(bare) if bare else None,
            beside="watchfiles printing their names",
            ratios=tuple(mine / theirs for mine, theirs in zip(ours, bare, strict=False)),
        )
    ]


async def _until_told(sandbox: Sandbox, files: int) -> float:
    await sandbox.run(["python3", "-S", "-c", MAKE_DIRECTORIES])
    await sandbox.flush()
    began = time.perf_counter()
    await sandbox.run(["python3", "-S", "-c", MAKE_FILES, str(files)])
    await sandbox.flush()
    return time.perf_counter() - began


async def _until_printed(place: Path, files: int) -> float:
    await asyncio.to_thread(place.mkdir)
    try:
        await _python(place, MAKE_DIRECTORIES)
        async with printing(place) as lines:
            began = time.perf_counter()
            making = asyncio.create_task(_python(place, MAKE_FILES, str(files)))
            last = await _last_new_line(lines, files)
            await making
            return max(last, began) - began
    finally:
        await asyncio.to_thread(shutil.rmtree, place)


async def _last_new_line(lines: asyncio.StreamReader, files: int) -> float:
    """When the last of so many different names came, or the last that came at all."""
    seen: set[bytes] = set()
    last = 0.0
    while len(seen) < files:
        try:
            async with asyncio.timeout(QUIET_S):
                line = await lines.readline()
        except TimeoutError:
            break
        if line.count(b"/d") and line not in seen and line.rstrip().rpartition(b"/")[2].isdigit():
            seen.add(line)
            last = time.perf_counter()
    return last


async def _python(place: Path, program: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec("python3", "-S", "-c", program, *arguments, cwd=place)
    await process.wait()
