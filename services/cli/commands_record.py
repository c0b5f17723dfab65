"""`events`, `logs`, `verify`: what the log says."""

import asyncio
from typing import Annotated

import typer

from contracts import codec, subjects
from contracts.errors import Invalid
from contracts.events.command import CommandOutput, Stream
from contracts.ids import is_token
from contracts.payload import unpack
from contracts.proof import Proof, Summary
from infra.bus import reader
from infra.client.execution import result_of
from services.cli import show
from services.cli.passthrough import STDERR, STDOUT, write_all
from services.cli.session import connected

SandboxArgument = Annotated[str, typer.Argument(metavar="SANDBOX")]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on with what comes.")]


def register(app: typer.Typer) -> None:
    app.command("events")(events)
    app.command("logs")(logs)
    app.command("verify")(verify)


def events(
    sandbox_id: SandboxArgument,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line: sequence and event.")] = False,
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
            async for event in sandbox.events(first, types=wanted, follow=follow):
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
            if exec_id and not (is_token(exec_id) and await reader.last(cloche.bus, filters[0])):
                raise Invalid(f"sandbox {sandbox_id!r} has no command {exec_id!r}: see `cloche events {sandbox_id}`")
            async for entry in reader.read(cloche.bus, filters, sandbox.state.first_sequence, follow=follow):
                fact = codec.decode_fact(codec.decode_head(entry.data))
                if isinstance(fact, CommandOutput):
                    data = unpack(fact.data, fact.encoding)
                    await asyncio.to_thread(write_all, STDERR if fact.stream == Stream.STDERR else STDOUT, data)
                elif follow and exec_id and fact is not None and result_of(fact, entry.seq):
                    return

    asyncio.run(go())


def verify(
    sandbox_id: Annotated[str | None, typer.Argument(metavar="[SANDBOX]", help="All unless given.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Prove from the log that no byte of any command is missing or twice, and that each ended exactly once."""

    async def go() -> Summary:
        proof = Proof()
        async with connected() as cloche:
            filters, first = [subjects.LOG], 1
            if sandbox_id:
                first = (await cloche.sandbox(sandbox_id)).state.first_sequence
                filters = subjects.events_of(sandbox_id)
            async for entry in reader.read(cloche.bus, filters, first, follow=False):
                proof.feed(entry.seq, codec.decode_head(entry.data))
        return proof.summary()

    summary = asyncio.run(go())
    if json:
        show.json_line(summary._asdict() | {"findings": [finding._asdict() for finding in summary.findings]})
    else:
        _tell(summary)
    raise typer.Exit(1 if summary.findings else 0)


def _tell(summary: Summary) -> None:
    for finding in summary.findings:
        print(f"sequence {finding.sequence}: {finding.sandbox} {finding.exec}: {finding.fault}: {finding.detail}")
    still = f", {len(summary.open)} still running" if summary.open else ""
    verdict = f"{len(summary.findings)} FAULTS" if summary.findings else "complete"
    print(
        f"{verdict}: {summary.events} events, {summary.commands} commands, {summary.ended} ended exactly once{still}, "
        f"{summary.bytes} bytes accounted for"
    )
