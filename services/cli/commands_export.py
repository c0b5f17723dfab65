"""`export`, `import`: sessions as files, for people, for other programs, for another Cloche."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from contracts.archives import Imported, ImportProgress
from contracts.errors import Invalid
from infra.bus.connection import Bus
from infra.client import Cloche
from infra.client.imports import import_file, imports
from infra.export.reading import header_of, lines, opened
from infra.log.imports import find_import
from infra.words.escaping import printable
from services.cli import show
from services.cli.exporting import Format, Wanted, export_session
from services.cli.progress_line import ProgressLine
from services.cli.session import connected
from services.cli.words import say


def register(app: typer.Typer) -> None:
    app.command("export")(export)
    app.command("import")(import_)


def export(
    sandbox: Annotated[str | None, typer.Argument(metavar="[SANDBOX]", help="Also one that is gone.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole log instead (jsonl).")] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="SANDBOX.jsonl (.cast, .html) unless given; `-` is standard output; `.gz` compresses.",
        ),
    ] = None,
    kind: Annotated[Format, typer.Option("--format", help="See above.")] = Format.JSONL,
    start: Annotated[
        str | None, typer.Option("--from", metavar="SEQUENCE|TIME", help="Its beginning unless given.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="SEQUENCE|TIME", help="Its end unless given.")] = None,
    exec_id: Annotated[
        str | None, typer.Option("--exec", metavar="EXEC", help="What one command showed (asciicast, html).")
    ] = None,
    max_idle: Annotated[
        str | None, typer.Option("--max-idle", metavar="2s", help="Shorten silences to this (asciicast, html).")
    ] = None,
    no_blobs: Annotated[bool, typer.Option("--no-blobs", help="Without the contents of files (jsonl).")] = False,
) -> None:
    """Write a session to a file, which has its name only once it is whole.

    \b
    jsonl         every event as it stands in the log, with what proves it: for
                  `cloche import`, and for `cloche verify` without a server
    asciicast     what the terminals showed, for asciinema 3 and its player
    asciicast-v2  the same, for asciinema 2
    html          one page to look at in any browser, without a network

    \b
    cloche export sb-1 -o session.jsonl.gz
    cloche export sb-1 --format asciicast -o session.cast --max-idle 2s
    cloche export --all -o log.jsonl.gz
    """
    wanted = Wanted(
        sandbox=sandbox,
        everything=everything,
        output=output,
        kind=kind,
        start=start,
        end=end,
        exec_id=exec_id,
        max_idle=max_idle,
        blobs=not no_blobs,
    ).checked()

    async def go() -> None:
        async with connected() as cloche:
            for line in await export_session(cloche, wanted):
                say(line)

    try:
        asyncio.run(go())
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Invalid(f"cannot write {output or 'the export'}: {error.strerror or error}") from error


def import_(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Of `cloche export`; `.gz` or not.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="What was imported.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Bring a session of another Cloche here, for reading: `events`, `show`, `replay`, `files` and the like find it.

    Nothing can be run in it. If it was interrupted, import the same file again.
    """
    if (file is None) != listed:
        raise Invalid("name the file to import, or say `--list`")

    async def go() -> list[Imported]:
        async with connected() as cloche:
            if file is None:
                return [each for part in cloche.parts.values() for each in await imports(part.bus)]
            bus = await asyncio.to_thread(_place, cloche, file)
            with ProgressLine(f"import {printable(file.name)}") as line:
                answer = await _imported(bus, file, line)
            here = [await find_import(bus, sandbox) for sandbox in answer.sandboxes]
            say(_told(answer))
            return [each for each in here if each is not None]

    found = asyncio.run(go())
    if listed and not found:
        say("nothing was imported yet: `cloche import FILE` does it")
    for each in found:
        if json:
            show.json_line(each)
        elif listed:
            print(_line(each))
        else:
            print(each.sandbox)


def _place(cloche: Cloche, file: Path) -> Bus:
    """Where the sandbox of the file is looked for. Raises `Invalid` for a whole log, unless there is one place only."""
    if len(cloche.parts) == 1:
        return cloche.bus
    with opened(file) as stream:
        sandbox = header_of(lines(stream)).sandbox
    return cloche.bus if sandbox is None else cloche.bus_of(sandbox)


async def _imported(bus: Bus, file: Path, line: ProgressLine) -> ImportProgress:
    try:
        return await import_file(bus, file, line.at)
    except Invalid as error:
        if not error.message.startswith("line 1:"):
            raise
        made = "`cloche export SANDBOX --format jsonl` makes one"
        raise Invalid(f"{printable(str(file))} is no export of Cloche; {made}: {error.message}") from error


def _told(answer: ImportProgress) -> str:
    some = answer.sandboxes[0] if answer.sandboxes else "SANDBOX"
    return f"{answer.events} events and {answer.blobs} contents were read; look at it with `cloche show {some}`"


def _line(each: Imported) -> str:
    when = each.imported_at.astimezone().strftime("%Y-%m-%d %H:%M")
    span = f"{each.first_sequence}-{each.last_sequence}"
    return f"{each.sandbox}\t{each.events} events\t{span}\tlog {each.log or '?'}\timported {when}"
