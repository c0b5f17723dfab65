"""The same commands by SWE-ReX's own runtime: one, many at once, and one with much output."""

import asyncio
import time
from collections.abc import Sequence

from infra.client import Sandbox
from services.cli.bench.figure import Figure
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes
from services.cli.bench.swe_rex_process import SweRex, swe_rex_process

LINE = "the quick brown fox jumps over the lazy dog and runs on till evening"
MB = 1024 * 1024
WARM_UP = 3
TURN = 10
BESIDE = "SWE-ReX, unsealed"
QUICK = ("true",)
LASTING = ("sleep", "0.2")

Times = tuple[list[float], list[float]]
"""Seconds, ours and theirs."""


async def swe_rex(rig: Rig, sizes: Sizes, python: str) -> list[Figure]:
    """Raises `Unavailable` where `python` has no SWE-ReX."""
    sandbox = await rig.cloche.create()
    async with swe_rex_process(python) as rex:
        for _ in range(WARM_UP):
            await sandbox.run(QUICK)
            await rex.run(QUICK)
        figures = [
            await _round_trip(rig, sizes, sandbox, rex),
            *[await _at_once(rig, sizes, sandbox, rex, command) for command in (QUICK, LASTING)],
            await _output(rig, sizes, sandbox, rex),
        ]
    await sandbox.remove()
    return figures


async def _round_trip(rig: Rig, sizes: Sizes, sandbox: Sandbox, rex: SweRex) -> Figure:
    ours: list[float] = []
    theirs: list[float] = []
    turns = [min(TURN, sizes.round_trips - done) for done in range(0, sizes.round_trips, TURN)]
    for turn in rig.progress.track(turns, description="exec beside SWE-ReX"):
        ours += [await _ours(sandbox, QUICK, 1) for _ in range(turn)]
        theirs += [(await rex.run(QUICK)).seconds for _ in range(turn)]
    return _milliseconds("exec round trip, p50", (ours, theirs))


async def _at_once(rig: Rig, sizes: Sizes, sandbox: Sandbox, rex: SweRex, command: Sequence[str]) -> Figure:
    ours: list[float] = []
    theirs: list[float] = []
    what = f"{sizes.at_once} × `{' '.join(command)}` at once"
    for _ in rig.progress.track(range(sizes.rounds), description=what):
        ours.append(await _ours(sandbox, command, sizes.at_once))
        theirs.append((await rex.run(command, sizes.at_once)).seconds)
    return _milliseconds(f"{what}, all ended", (ours, theirs))


def _milliseconds(what: str, times: Times) -> Figure:
    ours, theirs = (median(each) * 1000 for each in times)
    return Figure(what=what, value=ours, unit="ms", bare=theirs, beside=BESIDE)


async def _output(rig: Rig, sizes: Sizes, sandbox: Sandbox, rex: SweRex) -> Figure:
    """Both hand over the whole of it."""
    command = f"yes '{LINE}' | head -c {sizes.compared_bytes}"
    ours: list[float] = []
    theirs: list[float] = []
    for _ in rig.progress.track(range(sizes.rounds), description="output beside SWE-ReX"):
        ours.append(await _whole_output(sandbox, command, sizes.compared_bytes))
        measured = await rex.run(command)
        assert measured.characters == sizes.compared_bytes, f"{measured.characters} characters came"
        theirs.append(measured.seconds)
    size_mb = sizes.compared_bytes / MB
    return Figure(
        what=f"{size_mb:.0f} MB of output, handed over whole",
        value=size_mb / median(ours),
        unit="MB/s",
        bare=size_mb / median(theirs),
        beside=BESIDE,
        ratios=tuple(their / our for our, their in zip(ours, theirs, strict=True)),
    )


async def _whole_output(sandbox: Sandbox, command: str, size: int) -> float:
    began = time.perf_counter()
    result = await sandbox.run(command)
    took = time.perf_counter() - began
    assert len(result.stdout) == size, f"{len(result.stdout)} of {size} bytes came"
    return took


async def _ours(sandbox: Sandbox, command: Sequence[str], at_once: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(sandbox.run(command) for _ in range(at_once)))
    return time.perf_counter() - began
