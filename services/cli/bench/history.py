"""One sandbox with a long history, on a node of its own, whose chain is complete: what is read in several ways."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from msgspec import Struct
from rich.progress import Progress

from contracts import subjects
from contracts.events.command import CommandCompleted, CommandOutput, CommandStarted, Exit, Stream, Totals
from contracts.events.sandbox import SandboxCreated, SandboxCreating, SandboxStarted
from contracts.message import Fact
from contracts.payload import pack
from contracts.spec import Isolation, SandboxSpec
from infra.bus import reader
from infra.bus.connection import Bus, connect
from infra.bus.out_stream import OutStream
from infra.client.auditing import audit_state
from infra.embedded import secrets
from infra.journal import Journal
from services.cli.bench.bare import ADMIN
from services.cli.bench.figure import Figure, Measured
from services.cli.bench.rig import Rig, running_node
from services.cli.bench.sizes import Sizes

SANDBOX = "sb-history"
ELSEWHERE = "elsewhere"
"""The node of the sandbox: there is none, so that nobody looks after it."""
LINE = b"a line of output, as long as such lines usually are in a build\n"
OUTPUTS = 48
"""Of each command."""
FAST = 'durability = "process"\n'
"""It is reading that is measured, or what one more reader costs, and no disk."""
PROVEN_SOON = "audit = { checkpoint_s = 0.5 }\n"
LOOK_S = 0.2

T = TypeVar("T")


class History(Struct, frozen=True, kw_only=True):
    rig: Rig
    url: str
    password: str
    first: int
    last: int
    """The sandbox's own sequences."""
    events: int

    @property
    def filter(self) -> str:
        return subjects.events_of(SANDBOX)[0]

    async def apart(self, work: Callable[[Bus], Coroutine[Any, Any, T]]) -> T:
        """In a thread on the event loop that services use: whatever is compared runs in the same way."""

        async def connected() -> T:
            async with await connect(self.url, ADMIN, self.password, "bench") as bus:
                return await work(bus)

        return await asyncio.to_thread(uvloop.run, connected())


HistoryBenchmark = Callable[[History, Sizes], Awaitable[list[Figure]]]


@asynccontextmanager
async def history_in(data: Path, sizes: Sizes, progress: Progress) -> AsyncIterator[History]:
    async with running_node(data, progress, more=FAST + PROVEN_SOON) as rig:
        first, last = await _fill(rig.admin, sizes.history_events, progress)
        await _proven(rig, last)
        password = secrets.read(secrets.directory(rig.settings.data), ADMIN).password
        yield History(
            rig=rig, url=rig.admin.url, password=password, first=first, last=last, events=sizes.history_events
        )


async def histories(
    place: Path, benchmarks: Mapping[str, HistoryBenchmark], sizes: Sizes, progress: Progress
) -> Measured:
    if not benchmarks:
        return {}
    async with history_in(place / "history", sizes, progress) as history:
        return {name: await benchmark(history, sizes) for name, benchmark in benchmarks.items()}


async def _fill(bus: Bus, events: int, progress: Progress) -> tuple[int, int]:
    journal = Journal(bus, service="executor", node=ELSEWHERE)
    begun = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    async with OutStream(bus) as out:
        for number, fact in zip(
            progress.track(range(events), description="writing a long history"), facts(), strict=False
        ):
            time = begun + datetime.timedelta(milliseconds=number)
            written = journal.write(SANDBOX, fact, id=f"history.{number}", time=time)
            await out.send(written.subject, written.payload, written.id)
    mine = subjects.events_of(SANDBOX)[0]
    first, last = await reader.first(bus, mine), await reader.last(bus, mine)
    assert first is not None
    assert last is not None
    return first.seq, last.seq


def facts() -> Iterator[Fact]:
    """A sandbox that is made, and then runs one command after another."""
    yield SandboxCreating(spec=SandboxSpec(), isolation=Isolation.LOCAL, node=ELSEWHERE)
    yield SandboxCreated(node=ELSEWHERE, isolation=Isolation.LOCAL, workspace="/workspace")
    yield SandboxStarted(instance="i-1")
    number = 0
    while True:
        number += 1
        yield from _command(f"e-{number}")


def _command(name: str) -> Iterator[Fact]:
    packed = pack(LINE)
    yield CommandStarted(exec=name, argv=("make", name), cwd="/workspace")
    for offset in range(0, OUTPUTS * len(LINE), len(LINE)):
        yield CommandOutput(
            exec=name,
            stream=Stream.STDOUT,
            offset=offset,
            size=len(LINE),
            data=packed.data,
            encoding=packed.encoding,
        )
    yield CommandCompleted(exec=name, exit=Exit(code=0), duration_ms=50.0, totals=Totals(stdout=OUTPUTS * len(LINE)))


async def _proven(rig: Rig, last: int) -> None:
    """Nobody works on the log any more, and all of it is proven."""
    while (await audit_state(rig.cloche.bus)).checkpoint < last:  # noqa: ASYNC110  nobody announces it
        await asyncio.sleep(LOOK_S)
