"""How long after it was written a line of output is seen by a follower."""

import asyncio
import time
from collections.abc import AsyncIterator

from infra.client import Sandbox
from services.cli.bench.bare import bubblewrap
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIMS_MS = {50: 5, 99: 25}
PROGRAM = """
import random, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(random.uniform(0.020, 0.060))
    print(time.time_ns(), flush=True)
"""


async def first_byte(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    command = ["python3", "-S", "-c", PROGRAM, str(max(1, sizes.lines // sizes.rounds))]
    ours: list[float] = []
    bare: list[float] = []
    for _ in rig.progress.track(range(sizes.rounds), description="first byte"):
        ours += await _late_ms(_followed(sandbox, command))
        bare += await _late_ms(_piped(bubblewrap(*command)))
    await sandbox.remove()
    return [
        Figure(
            what=f"line written → seen by a follower, p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            bare=percentile(bare, percent),
            beside="pipe from bwrap …",
            aim=Aim(below=aim),
        )
        for percent, aim in AIMS_MS.items()
    ]


async def _late_ms(pieces: AsyncIterator[bytes]) -> list[float]:
    """How late each line was, by the clock that writer and reader share."""
    late: list[float] = []
    async for piece in pieces:
        now = time.time_ns()
        late += [(now - int(line)) / 1e6 for line in piece.split()]
    return late


async def _followed(sandbox: Sandbox, command: list[str]) -> AsyncIterator[bytes]:
    execution = await sandbox.start(command)
    async for chunk in execution.output():
        yield chunk.data


async def _piped(argv: list[str]) -> AsyncIterator[bytes]:
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async for line in process.stdout:
        yield line
    await process.wait()
