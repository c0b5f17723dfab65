"""`events`, `logs`: what the log says."""

import asyncio
from typing import Annotated

import typer

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.command import CommandOutput, Stream
from contracts.ids import is_token
from contracts.payload import unpack
from infra.bus import reader
from infra.client.execution import result_of
from infra.log.choosing import view_of
from infra.log.live import LiveView
from services.cli import show
from services.cli.gaps import tell_gap, tell_gap_in_json
from services.cli.passthrough import STDERR, STDOUT, write_all
from services.cli.session import connected

SandboxArgument = Annotated[str, typer.Argument(metavar="SANDBOX")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on with what comes.")]


def register(app: typer.Typer) -> None:
    app.command("events")(events)
    app.command("logs")(logs)


def events(
    sandbox_id: SandboxArgument,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line: sequence and event, or gap.")] = False,
    start: Annotated[int, typer.Option("--from", min=1, help="Continue from this sequence.")] = 1,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Tags (command.output) or families (command,file).")
    ] = None,
    follow: Follow = False,
) -> None:
    """Every event of a sandbox, from any sequence on, also after it is gone."""
    wanted = [tag for given in types or () for tag in given.split(",")]

    async def go() -> None:
        async with connected() as cloche:
            sandbox = await cloche.sandbox(sandbox_id)
            first = max(start, sandbox.state.first_sequence)
            on_gap = tell_gap_in_json if json else tell_gap
            async for event in sandbox.events(first, types=wanted, follow=follow, on_gap=on_gap):
                if json:
                    write_all(STDOUT, b'{"sequence":%d,"event":%b}\n' % (event.sequence, event.raw))
                else:
                    show.event_line(event.sequence, event.head)

    asyncio.run(go())


def logs(
    sandbox_id: SandboxArgument,
    exec_id: Annotated[str | None, typer.Argument(metavar="[EXEC]", help="One command; all unless given.")] = None,
    follow: Follow = False,
) -> None:
    """The bytes that commands wrote, exactly: stdout to stdout, stderr to stderr. Also after the sandbox is gone."""

    async def go() -> None:
        async with connected() as cloche:
            sandbox = await cloche.sandbox(sandbox_id)
            filters = subjects.events_of(sandbox_id, family="command", scope=exec_id or "*")
            view = await view_of(cloche.bus_of(sandbox_id), sandbox_id)
            if exec_id and not (is_token(exec_id) and await view.last(filters[0])):
                raise Invalid(f"sandbox {sandbox_id!r} has no command {exec_id!r}: see `cloche events {sandbox_id}`")
            first = sandbox.state.first_sequence
            stored = (
                reader.read(cloche.bus_of(sandbox_id), filters, first, follow=True, on_gap=tell_gap)
                if follow and isinstance(view, LiveView)
                else view.read(filters, first, on_gap=tell_gap)
            )
            async for entry in stored:
                fact = codec.decode_fact(codec.decode_head(entry.data))
                if isinstance(fact, CommandOutput):
                    data = unpack(fact.data, fact.encoding)
                    await asyncio.to_thread(write_all, STDERR if fact.stream == Stream.STDERR else STDOUT, data)
                elif follow and exec_id and fact is not None and result_of(fact, entry.seq):
                    return

    asyncio.run(go())
