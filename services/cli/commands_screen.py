"""`screen`: what a terminal showed."""

import asyncio
import re
import sys
from typing import Annotated

import typer

from contracts.screens import MAX_SCROLLBACK, Screen
from infra.client.screens import screen_at
from infra.words.escaping import printable
from services.cli import show
from services.cli.moments import moment
from services.cli.passthrough import STDOUT, write_all
from services.cli.session import connected
from services.cli.words import say

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f]|\x1b\[[0-9;]*m)*")


def register(app: typer.Typer) -> None:
    app.command("screen")(screen)


def screen(
    sandbox_id: Annotated[str, typer.Argument(metavar="SANDBOX")],
    exec_id: Annotated[
        str | None, typer.Argument(metavar="[EXEC]", help="A command; the last that was started unless given.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="SEQ|TIME", help="A sequence of the log, 2026-01-31T12:30:00, 12:30:00 (today) or -5m."
        ),
    ] = None,
    scrollback: Annotated[
        int, typer.Option("--scrollback", min=0, max=MAX_SCROLLBACK, metavar="N", help="And N lines above it.")
    ] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Without colours, as when it goes into a file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """What the terminal of a command showed at any moment, as it looked. Now unless --at says when.

    Also of a sandbox that is removed, or was imported. `cloche logs` has every byte, `cloche replay` plays them.
    """
    when = None if at is None else moment(at, "--at")

    async def go() -> Screen:
        async with connected() as cloche:
            return await screen_at(cloche.bus_of(sandbox_id), sandbox_id, exec_id, when, scrollback)

    answer = asyncio.run(go())
    if json:
        show.json_line(answer)
        return
    styled = sys.stdout.isatty() and not plain
    write_all(STDOUT, "".join(f"{_safe(line, styled)}\n" for line in _shown(answer)).encode("utf-8", "replace"))
    if sys.stderr.isatty():
        say(_about(answer))


def _shown(answer: Screen) -> list[str]:
    """Without the empty lines at its end."""
    lines = [*answer.scrollback, *answer.lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _safe(line: str, styled: bool) -> str:
    """The service says that there is nothing in it but text and styles; a terminal is too good to take its word."""
    if not _LINE.fullmatch(line):
        return printable(line)
    return line if styled else _STYLES.sub("", line)


def _about(answer: Screen) -> str:
    words = [f"{printable(answer.exec)} at sequence {answer.sequence}", f"{answer.cols}x{answer.rows}"]
    words += [] if answer.pty else ["without a terminal"]
    words += ["alternate screen"] if answer.alternate else []
    words += [f"title {printable(answer.title, 60)!r}"] if answer.title else []
    words += [f"{answer.bytes:,} bytes of output", "ended" if answer.ended else "running"]
    words += ["there was more than one answer holds"] if answer.truncated else []
    return ", ".join(words)
