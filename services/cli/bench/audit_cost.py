"""What the chain of hashes costs those who write to the log."""

import asyncio
import time
from pathlib import Path

import uvloop
from rich.progress import Progress

from infra.bus import reader
from infra.bus.connection import connect
from infra.bus.out_stream import OutStream
from infra.client.auditing import audit_state
from infra.embedded import secrets
from infra.ids import new_id
from infra.journal import Journal
from services.cli.bench.bare import ADMIN
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.history import ELSEWHERE, FAST, LOOK_S, facts
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig, running_node
from services.cli.bench.sizes import Sizes

WITHOUT = "audit = { enabled = false }\n"
AIM_RATIO = 0.95


async def audit_cost(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    async with (
        running_node(place / "audited", progress, more=FAST) as audited,
        running_node(place / "unaudited", progress, more=FAST + WITHOUT) as unaudited,
    ):
        return await compared(audited, unaudited, sizes)


async def compared(audited: Rig, unaudited: Rig, sizes: Sizes) -> list[Figure]:
    ours: list[float] = []
    bare: list[float] = []
    for _ in audited.progress.track(range(sizes.rounds), description="publishing with and without the chain"):
        ours.append(await _publish(audited, sizes.published))
        await _noted(audited)
        bare.append(await _publish(unaudited, sizes.published))
    return [
        Figure(
            what=f"{sizes.published:,} events published, with the audit chain",
            value=sizes.published / median(ours),
            unit="events/s",
            bare=sizes.published / median(bare),
            beside="without it",
            ratios=tuple(theirs / mine for mine, theirs in zip(ours, bare, strict=True)),
            aim=Aim(ratio_from=AIM_RATIO),
        )
    ]


async def _noted(rig: Rig) -> None:
    """The audit goes on behind whoever has written: it must not be at work while the other node is measured."""
    last = (await reader.bounds(rig.admin)).last
    while (await audit_state(rig.cloche.bus)).seen < last:  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(LOOK_S)


async def _publish(rig: Rig, count: int) -> float:
    """On the event loop that the services use, which is not the one of the command line."""
    password = secrets.read(secrets.directory(rig.settings.data), ADMIN).password
    return await asyncio.to_thread(uvloop.run, _published(rig.admin.url, password, count))


async def _published(url: str, password: str, count: int) -> float:
    async with await connect(url, ADMIN, password, "bench") as bus:
        journal = Journal(bus, service="executor", node=ELSEWHERE)
        name = new_id("sb")
        written = [
            journal.write(name, fact, id=f"{name}.{number}")
            for number, fact in zip(range(count), facts(), strict=False)
        ]
        began = time.perf_counter()
        async with OutStream(bus) as out:
            for each in written:
                await out.send(each.subject, each.payload, each.id)
        return time.perf_counter() - began
