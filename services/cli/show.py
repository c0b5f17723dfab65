"""How things look to a person, and as one JSON object a line to a program."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from contracts.message import EventHead
from infra.words.escaping import printable
from infra.words.summaries import summary
from services.cli import columns
from services.cli.use import Seen
from services.cli.words import say

console = Console(highlight=False)
PREVIEW = 100
WIDE = 1000
COLUMNS = (
    columns.SANDBOX, columns.STATUS, columns.HEALTH, columns.OVERDUE, columns.ASKS, columns.AGENT, columns.CPU,
    columns.MEMORY, columns.DISK, columns.PROCESSES, columns.RUNNING, columns.AGE, columns.ISOLATION,
    columns.NODE, columns.COMMANDS, columns.TASK,
)  # fmt: skip


def json_line(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def sandbox_table(rows: Sequence[Seen]) -> None:
    if not rows:
        say("no sandboxes: `cloche create` makes one, `cloche run -- CMD` uses one for a single command")
        return
    fitted = columns.fitting(COLUMNS, rows, columns.width_of_output())
    # A narrow terminal wraps lines; it must not cut names that somebody wants to copy.
    Console(highlight=False, width=WIDE).print(columns.table(fitted, rows))


def event_line(sequence: int, head: EventHead) -> None:
    line = Text(f"{sequence:>8}  {head.time:%H:%M:%S.%f}"[:-3], style="dim")
    line.append(f"  {head.type:<20} ", style="bold")
    # What it shows came out of a sandbox: everything that could move a cursor is escaped.
    line.append(printable(summary(head), PREVIEW))
    console.print(line, soft_wrap=True)
