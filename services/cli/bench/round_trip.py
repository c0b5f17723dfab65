"""From asking for a command to knowing its end, over the durable log."""

import time

from infra.client import Sandbox
from services.cli.bench.bare import bubblewrap, timed
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIM_MS = 10
WARM_UP = 5
TURN = 25
"""Short, so that noise hits both; not single, for the kernel takes down bubblewrap's namespaces after its end."""


async def round_trip(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(WARM_UP):
        await sandbox.run(["true"])
    turns = [min(TURN, sizes.round_trips - done) for done in range(0, sizes.round_trips, TURN)]
    for turn in rig.progress.track(turns, description="exec round trip"):
        ours += [await _ours(sandbox) for _ in range(turn)]
        bare += [await timed(bubblewrap("true")) * 1000 for _ in range(turn)]
    await sandbox.remove()
    return [
        Figure(
            what=f"exec round trip, p{percent}",
            value=percentile(ours, percent),
            unit="ms",
            bare=percentile(bare, percent),
            beside="bwrap … true",
            aim=Aim(below=AIM_MS) if percent == 50 else None,
        )
        for percent in (50, 99)
    ]


async def _ours(sandbox: Sandbox) -> float:
    began = time.perf_counter()
    await sandbox.run(["true"])
    return (time.perf_counter() - began) * 1000
