"""A table of sandboxes that fits: the columns that matter least make room, names are never cut."""

import datetime
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from contracts.runs import RunState
from infra.words.escaping import printable
from services.cli.measures import percent, size
from services.cli.use import NOTHING, Seen

GAP = 2
STYLES = {"healthy": "green", "unhealthy": "yellow", "died": "bold red", "failed": "red", NOTHING: "dim"}
UNBOUNDED = 10_000


class Column(NamedTuple):
    title: str
    cell: Callable[[Seen], str]
    rank: int = 0
    """The highest goes first; 0 stays, whatever the width."""
    right: bool = False


def _memory(row: Seen) -> str:
    use = row.fresh_use
    return f"{size(use.memory_bytes)}/{size(use.memory_limit_bytes)}" if use else NOTHING


def _disk(row: Seen) -> str:
    return size(row.fresh_use.disk_bytes) if row.fresh_use else NOTHING


def _processes(row: Seen) -> str:
    return str(row.fresh_use.processes) if row.fresh_use else NOTHING


def _cpu(row: Seen) -> str:
    return percent(row.fresh_use.cpu_percent) if row.fresh_use else NOTHING


def _open_run(row: Seen) -> RunState | None:
    return next((run for run in reversed(row.state.runs) if run.is_open), None)


def _agent(row: Seen) -> str:
    run = _open_run(row)
    return "" if run is None else f"{printable(run.runtime)} {'asks' if _questions(run) else run.status}"


def _questions(run: RunState) -> int:
    return sum(not each.answered for each in run.pending) + run.pending_more


def _asks(row: Seen) -> int:
    run = _open_run(row)
    return len(row.state.approvals.pending) + (0 if run is None else _questions(run))


def _age(since: datetime.datetime, now: datetime.datetime) -> str:
    seconds = int((now - since).total_seconds())
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{max(seconds, 0)}s"


def ago(row: Seen) -> str:
    """How long ago it was last seen alive."""
    return f"{_age(row.seen_at, row.now)} ago" if row.seen_at is not None else "never"


SANDBOX = Column("SANDBOX", lambda row: row.state.sandbox)
STATUS = Column("STATUS", lambda row: str(row.state.status))
HEALTH = Column("HEALTH", lambda row: row.health)
OVERDUE = Column("SEEN", lambda row: ago(row) if row.overdue else "", rank=1)
"""Only there when somebody should have looked and has not."""
ASKS = Column("ASKS", lambda row: str(_asks(row) or ""), rank=1, right=True)
"""Only there when somebody waits for an answer: `cloche net` and `cloche agent pending` show which."""
AGENT = Column("AGENT", _agent, rank=2)
"""Only there when one is at work somewhere."""
CPU = Column("CPU", _cpu, rank=3, right=True)
MEMORY = Column("MEMORY", _memory, rank=2, right=True)
DISK = Column("DISK", _disk, rank=4, right=True)
PROCESSES = Column("PROCS", _processes, rank=5, right=True)
RUNNING = Column("RUNNING", lambda row: str(len(row.state.running)), rank=6, right=True)
AGE = Column("AGE", lambda row: _age(row.state.created_at, row.now), rank=7, right=True)
ISOLATION = Column("ISOLATION", lambda row: str(row.state.isolation), rank=8)
NODE = Column("NODE", lambda row: row.state.node, rank=9)
TASK = Column("TASK", lambda row: row.state.spec.task_id or "", rank=10)
COMMANDS = Column("COMMANDS", lambda row: str(row.state.commands), rank=11, right=True)


def fitting(columns: Sequence[Column], rows: Sequence[Seen], width: int) -> list[Column]:
    """Without those that nobody has anything in, and without the least of the others where it is narrow."""
    widths = {column.title: _width(column, rows) for column in columns}
    kept = [column for column in columns if widths[column.title]]
    while sum(widths[column.title] + GAP for column in kept) - GAP > width:
        least = max(kept, key=lambda column: column.rank)
        if least.rank == 0:
            break
        kept.remove(least)
    return kept


def _width(column: Column, rows: Sequence[Seen]) -> int:
    longest = max((len(column.cell(row)) for row in rows), default=0)
    return max(longest, len(column.title)) if longest else 0


def table(columns: Sequence[Column], rows: Sequence[Seen]) -> Table:
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        justify: JustifyMethod = "right" if column.right else "left"
        width = _width(column, rows) or len(column.title)
        drawn.add_column(column.title, no_wrap=True, min_width=width, justify=justify)
    for row in rows:
        cells = (column.cell(row) for column in columns)
        drawn.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return drawn


def width_of_output() -> int:
    """Of the terminal; a pipe has none."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else UNBOUNDED
