"""One sandbox out of a log of very many events: what reading it costs, and what that depends on."""

import datetime
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from rich.progress import Progress

from contracts import subjects
from contracts.events.command import CommandOutput, Stream
from contracts.payload import pack
from contracts.streams import Limits
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.out_stream import OutStream
from infra.bus.provision import provision
from infra.embedded.server import EmbeddedServer
from infra.journal import Journal
from infra.settings import Durability
from services.cli.bench.figure import Figure
from services.cli.bench.percentile import median
from services.cli.bench.sizes import Sizes

READS = 9
FEW, MANY = 10, 100
"""How many sandboxes live at a time in the log of spans."""
TEXT = b"a line of output, as long as such lines usually are in a build\n"


class Read(NamedTuple):
    seconds: float
    events: int


async def large_log(place: Path, sizes: Sizes, progress: Progress) -> list[Figure]:
    """Durability `process` throughout: it is reading that is measured."""
    names = [f"sb-{number}" for number in range(sizes.sandboxes)]
    async with _log(place / "alone") as bus:
        await _fill(bus, [[names[0]]], sizes.events, progress, "a log of one sandbox")
        alone = await _median_read(bus, [names[0]])
    async with _log(place / "even") as bus:
        await _fill(bus, [names], sizes.events, progress, "a large log, all sandboxes side by side")
        even = await _median_read(bus, _spread(names))
        whole = await _read(bus, subjects.LOG, 1)
    async with _log(place / "spans") as bus:
        half = len(names) // 2
        few, many = names[:half], names[half:]
        await _fill(bus, [*_groups(few, FEW), *_groups(many, MANY)], sizes.events, progress, "a large log of spans")
        few_read, many_read = await _median_read(bus, _spread(few)), await _median_read(bus, _spread(many))
    return _figures(sizes, alone, {FEW: few_read, MANY: many_read, sizes.sandboxes: even}, whole)


def _figures(sizes: Sizes, alone: Read, by_neighbours: dict[int, Read], whole: Read) -> list[Figure]:
    log = f"{sizes.sandboxes * sizes.events:,} events"
    ours = [
        Figure(
            what=f"one sandbox ({read.events:,} events over {neighbours * sizes.events:,} sequences) out of {log}",
            value=read.seconds * 1000,
            unit="ms",
            bare=alone.seconds * 1000,
            beside="alone in a log",
        )
        for neighbours, read in by_neighbours.items()
    ]
    everything = Figure(
        what=f"the whole log of {log}",
        value=whole.seconds * 1000,
        unit="ms",
        bare=alone.seconds * 1000,
        beside="alone in a log",
    )
    return [*ours, everything]


@asynccontextmanager
async def _log(data: Path) -> AsyncIterator[Bus]:
    async with EmbeddedServer(data, durability=Durability.PROCESS) as server, await server.connect("admin") as admin:
        await provision(admin, Limits(), ["local"])
        yield admin


def _groups(names: list[str], size: int) -> list[list[str]]:
    return [names[at : at + size] for at in range(0, len(names), size)]


def _spread(names: list[str]) -> list[str]:
    """Some from the beginning to the end."""
    return [names[(len(names) - 1) * step // (READS - 1)] for step in range(READS)]


async def _fill(bus: Bus, groups: Iterable[list[str]], events: int, progress: Progress, what: str) -> None:
    """The sandboxes of a group take turns; a group ends before the next begins."""
    journal = Journal(bus, service="executor", node="local")
    async with OutStream(bus) as out:
        for group in progress.track(list(groups), description=f"writing {what}"):
            for number in range(events):
                for name in group:
                    written = journal.write(name, _output(number), id=f"{name}.{number}", time=_moment(number))
                    await out.send(written.subject, written.payload, written.id)


def _output(number: int) -> CommandOutput:
    packed = pack(TEXT)
    return CommandOutput(
        exec=f"e-{number // 50}",
        stream=Stream.STDOUT,
        offset=number % 50 * len(TEXT),
        size=len(TEXT),
        data=packed.data,
        encoding=packed.encoding,
    )


def _moment(number: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=number)


async def _median_read(bus: Bus, names: list[str]) -> Read:
    """Each from its first sequence, which a sandbox's state knows."""
    reads: list[Read] = []
    for name in names * (READS // len(names)):
        filter_ = subjects.events_of(name)[0]
        first = await reader.first(bus, filter_)
        assert first is not None
        reads.append(await _read(bus, filter_, first.seq))
    return Read(median([read.seconds for read in reads]), reads[0].events)


async def _read(bus: Bus, filter_: str, start: int) -> Read:
    began = time.perf_counter()
    events = 0
    async for _ in reader.read(bus, [filter_], start, follow=False):
        events += 1
    return Read(time.perf_counter() - began, events)
