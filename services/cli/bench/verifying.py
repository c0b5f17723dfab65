"""How fast a log is proven to be whole."""

import hashlib
import time
from functools import partial

from contracts import subjects
from contracts.verifying import Trust
from infra.bus.connection import Bus
from infra.log.live import LiveView
from infra.verify import keeping
from infra.verify.log import verify_log
from services.cli.bench.bare_reading import ORDERED, consumed
from services.cli.bench.figure import Figure
from services.cli.bench.history import History
from services.cli.bench.sizes import Sizes


async def verifying(history: History, _sizes: Sizes) -> list[Figure]:
    kept = keeping.read(history.rig.settings.data)
    trust = Trust((), kept.key, kept.checkpoints)
    view = LiveView(history.rig.admin)
    first, last = await view.bounds()
    count = last - first + 1
    task = history.rig.progress.add_task("verifying a long history", total=2)
    ours = await history.apart(partial(_verify, trust, kept.log))
    history.rig.progress.advance(task)
    bare = await history.apart(
        lambda bus: consumed(bus, subjects.LOG, count, lambda data: hashlib.sha256(data).digest())
    )
    history.rig.progress.remove_task(task)
    return [
        Figure(
            what=f"`verify` of a log of {count:,} events",
            value=count / ours,
            unit="events/s",
            bare=count / bare,
            beside=f"{ORDERED}, and sha256",
        )
    ]


async def _verify(trust: Trust, log: str, bus: Bus) -> float:
    began = time.perf_counter()
    verdict = await verify_log(LiveView(bus), trust, lambda _what, _done, _whole: None, log=log)
    assert not verdict.findings, verdict.findings[0]
    return time.perf_counter() - began
