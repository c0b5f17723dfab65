"""How long it takes to know how a sandbox with a long history was at some moment of it."""

import random
import time
from functools import partial

from contracts import codec
from contracts.errors import Unavailable
from contracts.folding import Folded, apply
from infra.bus import reader
from infra.bus.connection import Bus
from infra.client.past import state_at
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.history import SANDBOX, History
from services.cli.bench.percentile import median, percentile
from services.cli.bench.sizes import Sizes

AIM_MS = 200.0
SEED = 8
TRIES = 5


async def past_state(history: History, sizes: Sizes) -> list[Figure]:
    chance = random.Random(SEED)  # noqa: S311  the same moments in every run
    moments = [chance.randint(history.first + 2, history.last) for _ in range(sizes.moments)]
    await _snapshots_made(history)
    asked: list[float] = []
    for moment in history.rig.progress.track(moments, description="states of the past"):
        began = time.perf_counter()
        answer = await state_at(history.rig.cloche.bus, SANDBOX, moment)
        asked.append((time.perf_counter() - began) * 1000)
        assert answer.sequence == moment
    folded = [await history.apart(partial(_fold, history, moment)) for moment in sorted(moments)[:: _step(sizes)]]
    beside = "fold from the start, median"
    what = f"state at a random sequence of {history.events:,} events"
    return [
        Figure(
            what=f"{what}, p50",
            value=percentile(asked, 50),
            unit="ms",
            bare=median(folded),
            beside=beside,
            aim=Aim(below=AIM_MS),
        ),
        Figure(what=f"{what}, p99", value=percentile(asked, 99), unit="ms", bare=median(folded), beside=beside),
    ]


def _step(sizes: Sizes) -> int:
    return max(sizes.moments // sizes.folds, 1)


async def _snapshots_made(history: History) -> None:
    """The first question about a long history takes as long as reading it, and may take longer than anybody waits."""
    for left in reversed(range(TRIES)):
        try:
            await state_at(history.rig.cloche.bus, SANDBOX, history.last)
        except Unavailable:
            if not left:
                raise
        else:
            return


async def _fold(history: History, moment: int, bus: Bus) -> float:
    began = time.perf_counter()
    folded: Folded | None = None
    async for entry in reader.read(bus, [history.filter], history.first, follow=False, end=moment):
        folded = apply(folded, entry.seq, codec.decode_head(entry.data))
    assert folded is not None
    return (time.perf_counter() - began) * 1000
