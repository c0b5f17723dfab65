"""`top`, `why`: how sandboxes are, and how they came to be so."""

import asyncio
import datetime
import os
import sys
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from contracts import codec
from contracts.errors import Invalid, SandboxInvalidState, SandboxNotFound, Unavailable
from contracts.ids import is_token
from contracts.queries import ListSandboxes
from contracts.state import SandboxState
from infra import clock
from infra.bus import reader
from infra.client import Cloche
from infra.client.vitals import newest
from infra.configuration import load
from infra.log.choosing import view_of
from infra.log.live import LiveView
from services.cli import columns, show
from services.cli.board import Board
from services.cli.keys import Keys
from services.cli.plot import Plot, filters
from services.cli.session import connected
from services.cli.story import Story
from services.cli.telling import print_story
from services.cli.top import Sort, as_json, view
from services.cli.use import seen
from services.cli.values import duration_ms
from services.cli.why import SHOWN, story_of

KEYS = {"c": Sort.CPU, "m": Sort.MEMORY}
HINT = "keys: c, m, q"
LEAST_S = 0.1
WIDEST = 1000


def register(app: typer.Typer) -> None:
    app.command("top")(top)
    app.command("why")(why)


def top(
    sort: Annotated[Sort, typer.Option(help="What comes first: the most of this.")] = Sort.CPU,
    every: Annotated[str, typer.Option(help="How often the table is drawn anew; 100ms at the least.")] = "1s",
    once: Annotated[
        bool, typer.Option("--once", help="One table, and the end; also where standard output is no terminal.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line, each time.")] = False,
) -> None:
    """A live table of sandboxes and what they use. Keys: c sorts by CPU, m by memory, q leaves.

    Use is as of the last look at a sandbox, which SEEN says the age of: see `health_s` in [intervals] of cloche.toml.
    """
    every_s = max(duration_ms(every) / 1000, LEAST_S)

    async def go() -> None:
        async with connected() as cloche:
            board = Board(cloche, every_s=load(os.environ).intervals.health_s)
            await board.load(ListSandboxes())
            if once or not (json or sys.stdout.isatty()):
                _print(board, sort, json=json)
                return
            await _follow(board, sort, every_s, json=json)

    # Leaving is what Ctrl-C is for here.
    with suppress(KeyboardInterrupt):
        asyncio.run(go())


def _print(board: Board, sort: Sort, *, json: bool) -> None:
    now, rows = clock.now(), board.rows()
    if json:
        show.json_line(as_json(rows, sort, now=now))
    else:
        Console(highlight=False, width=WIDEST).print(view(rows, sort, now=now, width=columns.width_of_output()))


async def _follow(board: Board, sort: Sort, every_s: float, *, json: bool) -> None:
    following = asyncio.create_task(board.follow())
    looking = asyncio.create_task(_repeat(board, sort, every_s) if json else _draw(board, sort, every_s))
    try:
        done, _ = await asyncio.wait({following, looking}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        following.cancel()
        looking.cancel()
        await asyncio.gather(following, looking, return_exceptions=True)


async def _repeat(board: Board, sort: Sort, every_s: float) -> None:
    while True:
        _print(board, sort, json=True)
        await asyncio.sleep(every_s)


async def _draw(board: Board, sort: Sort, every_s: float) -> None:
    """Until somebody presses q."""
    console = Console(highlight=False)
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            size = console.size
            drawn = view(
                board.rows(),
                sort,
                now=clock.now(),
                width=size.width,
                height=size.height,
                connected=board.is_connected,
                hint=HINT,
            )
            live.update(drawn, refresh=True)
            key = await keys.next(every_s)
            if key == "q":
                return
            sort = KEYS.get(key or "", sort)


def why(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    last: Annotated[int, typer.Option(min=1, help="How much of what happened is told.")] = SHOWN,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Why a sandbox is in its state, in words, with the sequences of the events that say so. Also once it is gone."""
    if not is_token(sandbox_id):
        raise Invalid(f"{sandbox_id!r} is not a sandbox id: letters, digits, '-' and '_', 64 at most")

    async def go() -> Story:
        async with connected() as cloche:
            return await _story(cloche, sandbox_id, last)

    story = asyncio.run(go())
    if json:
        show.json_line(story)
    else:
        print_story(story)


async def _story(cloche: Cloche, sandbox: str, shown: int) -> Story:
    if not isinstance(await view_of(cloche.bus_of(sandbox), sandbox), LiveView):
        raise SandboxInvalidState(f"sandbox {sandbox!r} was imported: see `cloche show {sandbox}`")
    plot = Plot(shown)
    bus = cloche.bus_of(sandbox)
    head = (await reader.bounds(bus)).last
    async for entry in reader.read(bus, filters(sandbox), 1, follow=False):
        with suppress(Invalid):
            plot.feed(entry.seq, codec.decode_head(entry.data))
    unseen_since = None if plot.state is None else await _unseen_since(cloche, plot.state)
    story = story_of(sandbox, plot, now=clock.now(), head=head, unseen_since=unseen_since)
    if story is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}")
    return story


async def _unseen_since(cloche: Cloche, state: SandboxState) -> datetime.datetime | None:
    """Set where somebody should have looked at it by now. Without vitals nothing is known of that."""
    try:
        vitals = await newest(cloche.bus_of(state.sandbox), [state.sandbox])
    except Unavailable:
        return None
    row = seen(state, vitals.get(state.sandbox), now=clock.now(), every_s=load(os.environ).intervals.health_s)
    return (row.seen_at or state.started_at) if row.overdue else None
