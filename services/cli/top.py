"""What `cloche top` shows: who is alive, and who uses most."""

import datetime
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from contracts.state import Status
from services.cli import columns
from services.cli.measures import percent, size
from services.cli.use import Seen

COLUMNS = (
    columns.SANDBOX, columns.STATUS, columns.HEALTH, columns.ASKS, columns.AGENT, columns.CPU, columns.MEMORY,
    columns.DISK, columns.PROCESSES, columns.Column("SEEN", columns.ago, rank=6, right=True), columns.RUNNING,
    columns.AGE, columns.ISOLATION, columns.NODE, columns.TASK,
)  # fmt: skip
ALSO_SHOWN = frozenset({Status.CREATING, Status.RUNNING, Status.PAUSED})
HEADER_LINES = 3
FOOTER_LINES = 1


class Sort(StrEnum):
    CPU = "cpu"
    MEMORY = "memory"


def shown(rows: Sequence[Seen], sort: Sort) -> list[Seen]:
    """What is alive, or about to be; the one that uses most comes first."""
    return sorted((row for row in rows if row.state.status in ALSO_SHOWN), key=lambda row: _place(row, sort))


def _place(row: Seen, sort: Sort) -> tuple[float, float, str]:
    use = row.fresh_use
    if use is None:
        return (1.0, 1.0, row.state.sandbox)
    cpu, memory = -use.cpu_percent, -float(use.memory_bytes)
    return (cpu, memory, row.state.sandbox) if sort == Sort.CPU else (memory, cpu, row.state.sandbox)


def view(
    rows: Sequence[Seen],
    sort: Sort,
    *,
    now: datetime.datetime,
    width: int,
    height: int | None = None,
    connected: bool = True,
    hint: str = "",
) -> RenderableType:
    """`height` lines at most; all of them where there is no such bound."""
    ordered = shown(rows, sort)
    room = len(ordered) if height is None else max(height - HEADER_LINES - FOOTER_LINES, 1)
    visible = ordered[:room]
    parts: list[RenderableType] = [_summary(rows, ordered, sort, now=now, connected=connected, hint=hint)]
    if visible:
        parts.append(columns.table(columns.fitting(COLUMNS, visible, width), visible))
    if len(ordered) > len(visible):
        parts.append(Text(f"… {len(ordered) - len(visible)} more", style="dim"))
    return Group(*parts)


def _summary(
    rows: Sequence[Seen], ordered: Sequence[Seen], sort: Sort, *, now: datetime.datetime, connected: bool, hint: str
) -> Text:
    counts = Counter(str(row.state.status) for row in rows)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no sandboxes"
    uses = [row.fresh_use for row in ordered if row.fresh_use is not None]
    cpu, memory = sum(use.cpu_percent for use in uses), sum(use.memory_bytes for use in uses)
    line = Text(f"{now.astimezone():%H:%M:%S}  {words}  CPU {percent(cpu)}  memory {size(memory)}  by {sort}")
    if hint:
        line.append(f"  {hint}", style="dim")
    if not connected:
        line.append("\nnot connected: this is what was known last", style="bold red")
    return line


def as_json(rows: Sequence[Seen], sort: Sort, *, now: datetime.datetime) -> dict[str, Any]:
    counts = Counter(str(row.state.status) for row in rows)
    return {"at": now, "counts": counts, "sandboxes": [_row(row) for row in shown(rows, sort)]}


def _row(row: Seen) -> dict[str, Any]:
    state = row.state
    return {
        "sandbox": state.sandbox,
        "status": state.status,
        "health": state.health,
        "isolation": state.isolation,
        "node": state.node,
        "task_id": state.spec.task_id,
        "running": len(state.running),
        "created_at": state.created_at,
        "started_at": state.started_at,
        "seen_at": row.seen_at,
        "use": msgspec.to_builtins(row.use),
    }
