"""A short recorded past, and the part of the replay service that plays it."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator, Sequence

from contracts import streams
from contracts.events.command import CommandCompleted, CommandOutput, CommandStarted, Exit, Stream, TerminalSize, Totals
from contracts.events.sandbox import SandboxCreating
from contracts.message import Fact
from contracts.payload import pack
from contracts.replays import Replaying
from contracts.screens import Screen
from contracts.spec import Isolation, SandboxSpec
from infra.bus.broker import make_broker
from infra.bus.connection import Bus
from infra.bus.kv import Bucket
from infra.client import Cloche
from infra.client.replays import Played, Replay
from infra.journal import Journal
from services.replay.handlers import Historian
from services.replay.playing.orders import ReplayOrders
from services.replay.playing.stage import ScreensAt, Stage
from services.replay.routes import add_routes, take_orders
from tests.bus.servers import Server

USUAL = Replaying()
LINES = tuple(f"line {number}\r\n".encode() for number in range(20))
HOSTILE = (
    b"\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07\x1bP$qm\x1b\\\x1b[6n\x1b[?1000h\x1b]8;;http://evil\x07link\x1b]8;;\x07\r\n",
    b"\x9b31m\xff\xfe \xe2\x80\xaetxet\r\n",
    b"safe\r\n",
)
BEGINNING = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


async def create(server: Server, sandbox: str = "sb") -> None:
    """The beginning of a sandbox's record."""
    journal = Journal(await server.connect("spawner"), service="spawner", node="local")
    fact = SandboxCreating(isolation=Isolation.LOCAL, spec=SandboxSpec(), node="local")
    await journal.append(journal.write(sandbox, fact, id=f"{sandbox}.creating", time=BEGINNING))


async def record(
    server: Server,
    sandbox: str = "sb",
    *,
    outputs: Sequence[bytes] = LINES,
    every_s: float = 1.0,
    pty: TerminalSize | None = None,
    exec: str = "e1",  # noqa: A002
    argv: Sequence[str] = ("make", "test"),
    start: datetime.datetime = BEGINNING,
) -> list[int]:
    """One command, and its output at regular times. Returns the sequences."""
    journal = Journal(await server.connect("executor"), service="executor", node="local")
    stream = Stream.PTY if pty else Stream.STDOUT
    offset = 0
    facts: list[Fact] = [CommandStarted(exec=exec, argv=tuple(argv), cwd="/", pty=pty)]
    for data in outputs:
        packed = pack(data)
        facts.append(
            CommandOutput(
                exec=exec, stream=stream, offset=offset, size=len(data), data=packed.data, encoding=packed.encoding
            )
        )
        offset += len(data)
    facts.append(CommandCompleted(exec=exec, exit=Exit(code=0), duration_ms=1, totals=Totals(stdout=offset)))
    found = []
    for number, fact in enumerate(facts):
        time = start + datetime.timedelta(seconds=number * every_s)
        written = journal.write(sandbox, fact, id=f"{sandbox}.{exec}.{number}", time=time)
        found.append(await journal.append(written))
    return found


async def no_screens(_sandbox: str, _sequence: int) -> tuple[Screen, ...]:
    return ()


@contextlib.asynccontextmanager
async def playing_on(
    server: Server, *, settings: Replaying = USUAL, screens_at: ScreensAt = no_screens
) -> AsyncIterator[Stage]:
    """What the replay service runs for paced replays, and nothing else of it."""
    bus = await server.connect("replay")
    stage = Stage(bus, Bucket(bus, streams.REPLAYS_BUCKET), settings, screens_at)
    broker = make_broker(bus)
    add_routes(broker, Historian(stage.answers()))
    await broker.start()
    orders = {"replay": ReplayOrders(bus, stage).handle}
    journal = Journal(bus, service="replay", node="local")
    running = [asyncio.create_task(stage.run()), asyncio.create_task(take_orders(bus, journal, orders))]
    try:
        yield stage
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await broker.stop()


async def all_of(replay: Replay) -> list[Played]:
    return [event async for event in replay]


async def take(replay: Replay, count: int) -> list[Played]:
    """The next events; the iteration goes on with the next call."""
    events: list[Played] = []
    async with contextlib.aclosing(aiter(replay)) as played:  # type: ignore[type-var]
        while len(events) < count:
            events.append(await anext(played))
    return events


def cloche(bus: Bus) -> Cloche:
    return Cloche(bus)
