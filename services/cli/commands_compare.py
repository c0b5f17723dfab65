"""`compare`: two sandboxes side by side."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from rich.text import Text

from contracts.errors import ClocheError
from contracts.events.file import EntryKind
from contracts.manifest import Entry
from infra.log.view import BlobSource
from infra.watching.unified import unified
from services.cli import show
from services.cli.comparing_reading import Compared
from services.cli.comparing_reading import compare as read_both
from services.cli.comparing_text import comparison_lines
from services.cli.diff_colours import coloured
from services.cli.pager import paged
from services.cli.session import connected
from services.cli.values import sandbox_name

DIFF_BYTES = 256 * 1024
DIFFERENT = 1


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    outputs: Annotated[
        bool, typer.Option("--outputs/--no-outputs", help="Whether another output of the same step is a difference.")
    ] = True,
    diff: Annotated[bool, typer.Option("--diff", help="The lines that differ in the files, too.")] = False,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="All of it at once; PAGER chooses another one.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Lay two sandboxes side by side: where they part, then what is different in commands, files, cost and time.

    A fork is compared with its origin, or with another fork of it, from the moment on where they part. Ids, times and
    a sandbox's own name do not count. Exits with 0 where steps, files and specification are the same, with 1 where any
    of them differs. What was spent (requests, cost, tokens, time) is shown, and does not count.
    """

    async def go() -> bool:
        async with connected() as cloche:
            both = await read_both(cloche, sandbox_name(a), sandbox_name(b), outputs=outputs)
            if json:
                show.json_line(both.comparison)
            else:
                await _tell(both, diff=diff, pager=not no_pager)
            return both.comparison.is_same

    if not asyncio.run(go()):
        raise typer.Exit(DIFFERENT)


async def _tell(both: Compared, *, diff: bool, pager: bool) -> None:
    async with paged(wanted=pager) as output:
        await output.lines(comparison_lines(both.comparison))
        if diff:
            async for lines in _diffs(both):
                await output.lines(lines)


async def _diffs(both: Compared) -> AsyncIterator[list[Text]]:
    wanted = {*both.comparison.files.only_a, *both.comparison.files.only_b, *both.comparison.files.differing}
    for path in sorted({*both.a.tree, *both.b.tree}):
        of_a, of_b = both.a.tree.get(path), both.b.tree.get(path)
        entry = of_a or of_b
        if entry is None or entry.path not in wanted:
            continue
        old, new = await _text(of_a, both.a.view.blobs), await _text(of_b, both.b.view.blobs)
        text = "" if old is None or new is None else unified(old, new, entry.path)
        if text:
            shown = Text.from_ansi(coloured(text.encode("utf-8", "replace")).decode("utf-8", "replace"))
            yield [Text(""), shown]


async def _text(entry: Entry | None, blobs: BlobSource) -> str | None:
    """Empty for what is not a file, None for what is no text, or too much of it, or not to be had."""
    if entry is None or entry.kind != EntryKind.FILE:
        return ""
    if entry.size > DIFF_BYTES or entry.blob is None:
        return None
    try:
        return (await blobs.get(entry.blob, DIFF_BYTES)).decode()
    except (UnicodeDecodeError, ClocheError):
        return None
