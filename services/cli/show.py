"""How things look to a person, and as one JSON object a line to a program."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from contracts import codec
from contracts.events import command
from contracts.events.audit import DeadLetter
from contracts.events.sandbox import SandboxFailed, SandboxStopped
from contracts.message import EventHead
from services.cli import columns
from services.cli.escaping import printable
from services.cli.use import Seen
from services.cli.words import say

console = Console(highlight=False)
PREVIEW = 100
WIDE = 1000
COLUMNS = (
    columns.SANDBOX, columns.STATUS, columns.HEALTH, columns.OVERDUE, columns.CPU, columns.MEMORY, columns.DISK,
    columns.PROCESSES, columns.RUNNING, columns.AGE, columns.ISOLATION, columns.NODE, columns.COMMANDS, columns.TASK,
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
    line.append(summary(head))
    console.print(line, soft_wrap=True)


def summary(head: EventHead) -> str:
    """One line, with everything that could move a cursor escaped: what it shows came out of a sandbox."""
    fact = codec.decode_fact(head)
    match fact:
        case command.CommandStarted():
            text = f"{fact.exec}  {' '.join(fact.argv)}"
        case command.CommandOutput():
            text = f"{fact.exec}  {fact.stream} @{fact.offset} +{fact.size}  {fact.data!r}"
        case command.CommandInput():
            text = f"{fact.exec}  stdin @{fact.offset} +{fact.size}{' eof' if fact.eof else ''}  {fact.data!r}"
        case command.CommandCompleted():
            how = f"signal {fact.exit.signal}" if fact.exit.signal is not None else f"code {fact.exit.code}"
            text = f"{fact.exec}  {how} in {fact.duration_ms:.0f} ms, {fact.totals.stdout + fact.totals.stderr} bytes"
        case command.CommandTimedOut() | command.CommandCancelled() | command.CommandLost():
            text = f"{fact.exec}  {fact.cause}"
        case command.CommandRejected():
            text = f"{fact.exec}  {fact.failure.code}: {fact.failure.message}"
        case SandboxFailed(failure=failure) | DeadLetter(reason=failure):
            text = f"{failure.code}: {failure.message}"
        case SandboxStopped():
            text = fact.reason
        case _:
            text = bytes(head.data).decode("utf-8", "replace")
    return printable(text, PREVIEW)
