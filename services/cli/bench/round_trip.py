"""From asking for a command to knowing its end, over the durable log."""

import time

from services.cli.bench.bare import bubblewrap, timed
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import percentile
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIM_MS = 10
WARM_UP = 5


async def round_trip(rig: Rig, sizes: Sizes) -> list[Figure]:
    sandbox = await rig.cloche.create()
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(WARM_UP):
        await sandbox.run(["true"])
    for _ in rig.progress.track(range(sizes.round_trips), description="exec round trip"):
        began = time.perf_counter()
        await sandbox.run(["true"])
        ours.append((time.perf_counter() - began) * 1000)
        bare.append(await timed(bubblewrap("true")) * 1000)
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
