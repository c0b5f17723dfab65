"""How fast everything that one sandbox ever did is read."""

import time
from functools import partial

from infra.bus import reader
from infra.bus.connection import Bus
from services.cli.bench.bare_reading import ORDERED, consumed
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.history import History
from services.cli.bench.percentile import median
from services.cli.bench.sizes import Sizes

AIM_RATIO = 0.7


async def log_reading(history: History, sizes: Sizes) -> list[Figure]:
    ours: list[float] = []
    bare: list[float] = []
    for _ in history.rig.progress.track(range(sizes.rounds), description="reading a long history"):
        ours.append(await history.apart(partial(_read, history)))
        bare.append(await history.apart(lambda bus: consumed(bus, history.filter, history.events)))
    return [
        Figure(
            what=f"{history.events:,} events of one sandbox read",
            value=history.events / median(ours),
            unit="events/s",
            bare=history.events / median(bare),
            beside=ORDERED,
            ratios=tuple(theirs / mine for mine, theirs in zip(ours, bare, strict=True)),
            aim=Aim(ratio_from=AIM_RATIO),
        )
    ]


async def _read(history: History, bus: Bus) -> float:
    began = time.perf_counter()
    count = 0
    async for _ in reader.read(bus, [history.filter], history.first, follow=False, end=history.last):
        count += 1
    assert count == history.events
    return time.perf_counter() - began
