"""`show`: the story of a sandbox."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from contracts import codec, registry, subjects
from contracts.errors import Invalid, SandboxNotFound
from contracts.message import EventHead, Fact
from infra.bus.connection import Bus
from infra.log.choosing import view_of
from infra.log.live import LiveView
from infra.log.view import LogView
from infra.moments import Moment, sequence_at, sequence_since
from infra.states import state_of
from services.cli import show as showing
from services.cli.moments import check_range, moment
from services.cli.pager import paged
from services.cli.session import connected
from services.cli.showing_items import Item
from services.cli.showing_story import Story
from services.cli.showing_summary import Counting, Summary, summary_lines
from services.cli.showing_text import Teller
from services.cli.values import sandbox_name

MOMENT = "SEQUENCE|TIME"


class Wanted(NamedTuple):
    start: Moment | None
    end: Moment | None
    types: tuple[str, ...]
    full: bool


class Told(NamedTuple):
    sequence: int
    head: EventHead
    fact: Fact


def register(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    start: Annotated[str | None, typer.Option("--from", metavar=MOMENT, help="From there on.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar=MOMENT, help="Up to there.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only these: command, agent, user, file, network, guardian …")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Every line of output and of diffs, and what the agent thought.")
    ] = False,
    no_pager: Annotated[
        bool, typer.Option("--no-pager", help="All of it at once. PAGER chooses another pager.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line: the summary, then each item.")] = False,
) -> None:
    """What happened in a sandbox, as a story: commands, tool calls, files, approvals, network. Also after it is gone.

    The number before each line is its sequence in the log: `cloche fork`, `cloche files ls --at` and
    `cloche show --from` take it.
    """
    sandbox_name(sandbox_id)
    wanted = Wanted(
        start=None if start is None else moment(start, "--from"),
        end=None if end is None else moment(end, "--to"),
        types=_types(types or []),
        full=full,
    )

    async def go() -> None:
        async with connected() as cloche:
            bus = cloche.bus_of(sandbox_id)
            view = await view_of(bus, sandbox_id)
            first = 1 if wanted.start is None else await sequence_since(bus, sandbox_id, wanted.start)
            last = newest = (await view.bounds()).last
            if wanted.end is not None:
                last = min(last, await sequence_at(bus, sandbox_id, wanted.end))
            summary = await summary_of(bus, view, sandbox_id, last)
            check_range(first, last, newest)
            items = items_of(view, sandbox_id, wanted, first, last)
            if json:
                await _as_json(summary, items)
            else:
                await _as_text(summary, items, full=full, pager=not no_pager)

    asyncio.run(go())


def _types(given: list[str]) -> tuple[str, ...]:
    """Raises `Invalid` for what no event is called."""
    wanted = tuple(each for words in given for each in words.split(","))
    families = dict.fromkeys(tag.partition(".")[0] for tag in registry.EVENTS)
    for each in wanted:
        if each not in families and each not in registry.EVENTS:
            raise Invalid(f"--type {each!r}: there are {', '.join(families)}, or one kind such as command.completed")
    return wanted


async def _as_json(summary: Summary, items: AsyncGenerator[Item, None]) -> None:
    showing.json_line(summary)
    async for item in items:
        showing.json_line(item)


async def _as_text(summary: Summary, items: AsyncGenerator[Item, None], *, full: bool, pager: bool) -> None:
    teller = Teller(full=full)
    async with aclosing(items), paged(wanted=pager) as output:
        await output.lines(summary_lines(summary))
        is_told = False
        async for item in items:
            is_told = True
            await output.lines(teller.lines(item))
        if not is_told:
            await output.lines([Text("nothing of that happened")])


async def summary_of(bus: Bus, view: LogView, sandbox: str, last: int) -> Summary:
    """Raises `SandboxNotFound`."""
    counting = Counting()
    if await view.first(subjects.event(sandbox, "sandbox.creating")) is None:
        # The log may have forgotten how it began: the read model has not.
        counting.state = await state_of(bus, sandbox)
    async for told in _read(view, Counting.filters(sandbox), 1, last):
        counting.feed(*told)
    summary = counting.summary(imported=not isinstance(view, LiveView))
    if summary is None:
        raise SandboxNotFound(f"there is no sandbox {sandbox!r}, or was none by then: see `cloche ps --all`")
    return summary


async def items_of(view: LogView, sandbox: str, wanted: Wanted, first: int, last: int) -> AsyncGenerator[Item, None]:
    story = Story(full=wanted.full)
    async for told in _read(view, subjects.typed(sandbox, wanted.types), first, last):
        for item in story.feed(*told):
            yield item
    for item in story.end():
        yield item


async def _read(view: LogView, filters: list[str], first: int, last: int) -> AsyncIterator[Told]:
    """What is no event, or of a kind that this version does not know, is passed over."""
    async for entry in view.read(filters, first, end=last):
        try:
            head = codec.decode_head(entry.data)
            fact = codec.decode_fact(head)
        except Invalid:
            continue
        if fact is not None:
            yield Told(entry.seq, head, fact)
