"""`state`, `rebuild`: a sandbox as it was at any moment, and the read models made again."""

import asyncio
import datetime
import os
from typing import Annotated

import typer

from contracts.errors import ClocheError, Invalid
from contracts.past import Rebuilding, StateAt
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.past import file_count, rebuild, state_at
from infra.configuration import load
from services.cli import lost_streams, show
from services.cli.measures import counted
from services.cli.moments import moment
from services.cli.partitions import of_partition, title
from services.cli.progress_line import ProgressLine
from services.cli.session import connected
from services.cli.state_view import lines

MOST_COUNTED = 20_000
NAMED = 20


def register(app: typer.Typer) -> None:
    app.command("state")(state)
    app.command("rebuild")(rebuild_command)


def state(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="SEQ|TIME", help="A sequence of the log, 2026-01-31T12:30:00, 12:30:00 (today) or -5m."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """How a sandbox was at any moment: its life, commands, agents, conversation, network. Now unless --at says when.

    Also one that is removed, or was imported. `cloche files tree SB --at SEQ` has its files, `cloche screen` its
    terminals.
    """
    when = None if at is None else moment(at, "--at")

    async def go() -> tuple[StateAt, str]:
        async with connected() as cloche:
            sequence = when if isinstance(when, int) else None
            time = when if isinstance(when, datetime.datetime) else None
            answer = await state_at(cloche.bus_of(sandbox_id), sandbox_id, sequence, time=time)
            return answer, "" if json else await _files(cloche, answer)

    answer, files = asyncio.run(go())
    if json:
        show.json_line(answer)
        return
    for line in lines(answer, files):
        show.console.print(line, soft_wrap=True)


async def _files(cloche: Cloche, answer: StateAt) -> str:
    try:
        count = await file_count(
            cloche.bus_of(answer.state.sandbox), answer.state.sandbox, answer.sequence, MOST_COUNTED
        )
    except ClocheError:
        return "none on record by then"
    return counted(count, "entry", "entries") + (" or more" if count >= MOST_COUNTED else "")


def rebuild_command(json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Make the read models (`ps`, `top`, …) again from the log, while everything goes on.

    Streams and buckets that were lost are made again first. Needed only after damage: what can be noticed heals by
    itself.
    """

    async def go() -> dict[int, Rebuilding]:
        settings = load(os.environ)
        async with connected() as cloche:
            if settings.url is None:
                await lost_streams.make_again(settings)
            return {number: await _followed(part.bus) for number, part in cloche.parts.items()}

    rebuilt = asyncio.run(go())
    for number, done in rebuilt.items():
        if json:
            show.json_line(of_partition(done, number, len(rebuilt)))
        else:
            title(number, len(rebuilt))
            _print_rebuilt(done)


def _print_rebuilt(done: Rebuilding) -> None:
    if not done.changed:
        print(f"{done.sandboxes} sandboxes up to sequence {done.last_sequence}: all were as the log says")
        return
    more = f" and {len(done.changed) - NAMED} more" if len(done.changed) > NAMED else ""
    print(
        f"{done.sandboxes} sandboxes up to sequence {done.last_sequence}; "
        f"made again: {', '.join(done.changed[:NAMED])}{more}"
    )


async def _followed(bus: Bus) -> Rebuilding:
    with ProgressLine("events folded") as progress:
        async for standing in rebuild(bus):
            progress.at(standing.applied_sequence, standing.last_sequence)
            if standing.done:
                return standing
    raise Invalid("nobody has told the end of it: ask again")
