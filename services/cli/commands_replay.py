"""`replay`: a recorded session, played in the terminal as it looked."""

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated

import typer

from contracts import subjects
from contracts.errors import Invalid, SandboxNotFound, Unavailable
from contracts.ids import is_token
from contracts.pacing import FASTEST, SLOWEST, Timeline
from contracts.tape import FrameKind, Tape
from infra.bus.connection import Bus
from infra.log.ahead import Ahead
from infra.log.choosing import view_of
from infra.log.lacking import lacking_of, warn_of
from infra.log.live import LiveView
from infra.log.view import LogView
from infra.moments import Moment, sequence_at, sequence_since
from services.cli.moments import check_range, moment
from services.cli.passthrough import STDOUT, write_all
from services.cli.player import EVERYWHERE, Player
from services.cli.player_deck import Deck
from services.cli.player_frames import frames_of
from services.cli.player_index import Index
from services.cli.player_terminal import PlayerTerminal, has_keys, is_terminal
from services.cli.session import connected
from services.cli.values import duration_ms

TYPES = ("command", "agent", "user", "network.asked")
"""What a terminal shows, and what its marks are made of."""
ENTRIES = 1000
BYTES = 1024 * 1024
MAX = "max"


def register(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    speed: Annotated[str, typer.Option(help="How fast: 0.5, 4, 100. `max` waits for nothing.")] = "1",
    start: Annotated[
        str | None, typer.Option("--from", help="A sequence (see `cloche events`), or a time: 2026-01-31T12:30, -5m.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="A sequence, or a time.")] = None,
    max_idle: Annotated[str, typer.Option(help="The longest silence; longer ones are cut to it.")] = "2s",
    exec_id: Annotated[str | None, typer.Option("--exec", help="Only this command.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens now.")] = False,
    keys: Annotated[bool, typer.Option(help="React to keys. Without them it leaves at the end.")] = True,
) -> None:
    """Play a sandbox's past in this terminal, as it looked: running, stopped, removed or imported.

    Keys: space pauses, ←/→ go 5 seconds back and forth, ↑/↓ (or +/-) change the speed, 0-9 jump to tenths,
    . plays one step, [ and ] go to the mark before and after (a command, a tool call, a message), q leaves.
    """
    if not is_token(sandbox_id):
        raise Invalid(f"{sandbox_id!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")
    factor = _speed(speed)
    is_dump = not is_terminal()
    if is_dump and speed != MAX:
        raise Invalid(
            "standard output is no terminal: see `cloche logs` for what was written, `cloche export --format "
            "asciicast` for a recording, or add `--speed max` for the bytes"
        )
    idle_s = duration_ms(max_idle) / 1000
    since = None if start is None else moment(start, "--from")
    until = None if end is None else moment(end, "--to")

    async def go() -> None:
        async with connected() as cloche:
            session = await _Session.of(cloche.bus_of(sandbox_id), sandbox_id, exec_id, since, until, follow=follow)
            if is_dump:
                await session.dump()
            else:
                await session.play(factor, idle_s, keys=keys and has_keys())

    asyncio.run(go())


def _speed(text: str) -> float:
    if text == MAX:
        return FASTEST
    try:
        factor = float(text.removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not SLOWEST <= factor <= FASTEST:
        raise Invalid(f"--speed {text!r} is not a number between {SLOWEST:g} and {FASTEST:g}, nor `max`")
    return factor


class _Session:
    """The part of a log that is to be played."""

    def __init__(
        self,
        bus: Bus,
        view: LogView,
        sandbox: str,
        filters: list[str],
        exec_id: str | None,
        first: int,
        last: int | None,
    ) -> None:
        self._bus = bus
        self._view = view
        self._sandbox = sandbox
        self._filters = filters
        self._exec = exec_id
        self._first = first
        self._last = last

    @classmethod
    async def of(
        cls,
        bus: Bus,
        sandbox: str,
        exec_id: str | None,
        since: Moment | None,
        until: Moment | None,
        *,
        follow: bool,
    ) -> "_Session":
        """Raises `SandboxNotFound`, `Invalid` for a command, or a part, that is not there."""
        view = await view_of(bus, sandbox)
        if await view.first(subjects.events_of(sandbox)[0]) is None:
            raise SandboxNotFound(f"there is no sandbox {sandbox!r}: see `cloche ps --all`")
        filters = subjects.typed(sandbox, TYPES)
        if exec_id is not None:
            filters = subjects.events_of(sandbox, family="command", scope=exec_id)
            if not is_token(exec_id) or await view.first(filters[0]) is None:
                raise Invalid(f"sandbox {sandbox!r} has no command {exec_id!r}: see `cloche logs {sandbox}`")
        first = 1 if since is None else await sequence_since(bus, sandbox, since)
        newest = (await view.bounds()).last
        last = newest if until is None else await sequence_at(bus, sandbox, until)
        is_open = follow and until is None and isinstance(view, LiveView)
        if not is_open:
            check_range(first, last, newest)
        return cls(bus, view, sandbox, filters, exec_id, first, None if is_open else last)

    async def play(self, speed: float, max_idle_s: float, *, keys: bool) -> None:
        # Told when the terminal is left, however that is; and again what has become known meanwhile.
        await self._warn()
        await self._perform(speed, max_idle_s, keys=keys)
        with suppress(Unavailable):
            await self._warn()

    async def _warn(self) -> None:
        warn_of(await lacking_of(self._view, self._sandbox, self._last))

    async def _perform(self, speed: float, max_idle_s: float, *, keys: bool) -> None:
        follow = self._last is None
        deck = Deck(self._ahead(), Tape(self._exec), Timeline(max_idle_s), 1, follow=follow)
        index = Index(self._ahead(), Tape(self._exec), Timeline(max_idle_s), follow=follow)
        with PlayerTerminal(keys=keys) as terminal:
            try:
                async with aclosing(deck), asyncio.TaskGroup() as tasks:
                    player = Player(deck, index, terminal, speed=speed, keys=keys)
                    if await player.begin(self._first):
                        indexing = tasks.create_task(index.build(self._first))
                        await player.run()
                        indexing.cancel()
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None

    async def dump(self) -> None:
        """The bytes as they were written, without waiting."""
        tape = Tape(self._exec)
        end = EVERYWHERE if self._last is None else self._last
        async for entry in self._view.read(self._filters, end=end):
            for frame in frames_of(tape, entry):
                if frame.kind == FrameKind.OUTPUT and entry.seq >= self._first:
                    await asyncio.to_thread(write_all, STDOUT, frame.data)

    def _ahead(self) -> Ahead:
        return Ahead(self._bus, self._view, self._filters, self._last, entries=ENTRIES, max_bytes=BYTES)
